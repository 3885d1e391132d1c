SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public."BUCKETING_COLS" (
    "SD_ID" bigint NOT NULL,
    "BUCKET_COL_NAME" character varying(255),
    "INTEGER_IDX" integer NOT NULL
);
CREATE TABLE public."CDS" (
    "CD_ID" bigint NOT NULL
);
CREATE TABLE public."COLUMNS_V2" (
    "CD_ID" bigint NOT NULL,
    "COMMENT" character varying(256),
    "COLUMN_NAME" character varying(767) NOT NULL,
    "TYPE_NAME" character varying(32672) NOT NULL,
    "INTEGER_IDX" integer NOT NULL
);
CREATE TABLE public."DATABASE_PARAMS" (
    "DB_ID" bigint NOT NULL,
    "PARAM_KEY" character varying(180) NOT NULL,
    "PARAM_VALUE" character varying(4000)
);
CREATE TABLE public."DBS" (
    "DB_ID" bigint NOT NULL,
    "DESC" character varying(4000),
    "DB_LOCATION_URI" character varying(4000) NOT NULL,
    "NAME" character varying(128),
    "OWNER_NAME" character varying(128),
    "OWNER_TYPE" character varying(10)
);
CREATE TABLE public."DB_PRIVS" (
    "DB_GRANT_ID" bigint NOT NULL,
    "CREATE_TIME" integer NOT NULL,
    "DB_ID" bigint,
    "GRANT_OPTION" smallint NOT NULL,
    "GRANTOR" character varying(128),
    "GRANTOR_TYPE" character varying(128),
    "PRINCIPAL_NAME" character varying(128),
    "PRINCIPAL_TYPE" character varying(128),
    "DB_PRIV" character varying(128),
    CONSTRAINT "DB_PRIVS_GRANT_OPTION_check" CHECK (("GRANT_OPTION" = ANY (ARRAY[0, 1])))
);
CREATE TABLE public."DELEGATION_TOKENS" (
    "TOKEN_IDENT" character varying(767) NOT NULL,
    "TOKEN" character varying(767)
);
CREATE TABLE public."FUNCS" (
    "FUNC_ID" bigint NOT NULL,
    "CLASS_NAME" character varying(4000),
    "CREATE_TIME" integer NOT NULL,
    "DB_ID" bigint,
    "FUNC_NAME" character varying(128),
    "FUNC_TYPE" integer NOT NULL,
    "OWNER_NAME" character varying(128),
    "OWNER_TYPE" character varying(10)
);
CREATE TABLE public."FUNC_RU" (
    "FUNC_ID" bigint NOT NULL,
    "RESOURCE_TYPE" integer NOT NULL,
    "RESOURCE_URI" character varying(4000),
    "INTEGER_IDX" integer NOT NULL
);
CREATE TABLE public."GLOBAL_PRIVS" (
    "USER_GRANT_ID" bigint NOT NULL,
    "CREATE_TIME" integer NOT NULL,
    "GRANT_OPTION" smallint NOT NULL,
    "GRANTOR" character varying(128),
    "GRANTOR_TYPE" character varying(128),
    "PRINCIPAL_NAME" character varying(128),
    "PRINCIPAL_TYPE" character varying(128),
    "USER_PRIV" character varying(128),
    CONSTRAINT "GLOBAL_PRIVS_GRANT_OPTION_check" CHECK (("GRANT_OPTION" = ANY (ARRAY[0, 1])))
);
CREATE TABLE public."IDXS" (
    "INDEX_ID" bigint NOT NULL,
    "CREATE_TIME" integer NOT NULL,
    "DEFERRED_REBUILD" boolean NOT NULL,
    "INDEX_HANDLER_CLASS" character varying(4000),
    "INDEX_NAME" character varying(128),
    "INDEX_TBL_ID" bigint,
    "LAST_ACCESS_TIME" integer NOT NULL,
    "ORIG_TBL_ID" bigint,
    "SD_ID" bigint
);
CREATE TABLE public."INDEX_PARAMS" (
    "INDEX_ID" bigint NOT NULL,
    "PARAM_KEY" character varying(256) NOT NULL,
    "PARAM_VALUE" character varying(4000)
);
CREATE TABLE public."KEY_CONSTRAINTS" (
    "CONSTRAINT_NAME" character varying(255) NOT NULL,
    "POSITION" integer NOT NULL,
    "CHILD_CD_ID" bigint,
    "CHILD_INTEGER_IDX" integer,
    "CHILD_TBL_ID" bigint,
    "CONSTRAINT_TYPE" integer NOT NULL,
    "DELETE_RULE" integer,
    "ENABLE_VALIDATE_RELY" integer NOT NULL,
    "PARENT_CD_ID" bigint,
    "PARENT_INTEGER_IDX" integer,
    "PARENT_TBL_ID" bigint,
    "UPDATE_RULE" integer
);
CREATE TABLE public."MASTER_KEYS" (
    "KEY_ID" integer NOT NULL,
    "MASTER_KEY" character varying(767)
);
CREATE TABLE public."NOTIFICATION_LOG" (
    "NL_ID" bigint NOT NULL,
    "DB_NAME" character varying(128),
    "EVENT_ID" bigint NOT NULL,
    "EVENT_TIME" integer NOT NULL,
    "EVENT_TYPE" character varying(32) NOT NULL,
    "MESSAGE" text,
    "MESSAGE_FORMAT" character varying(16),
    "TBL_NAME" character varying(256)
);
CREATE TABLE public."NOTIFICATION_SEQUENCE" (
    "NNI_ID" bigint NOT NULL,
    "NEXT_EVENT_ID" bigint NOT NULL
);
CREATE TABLE public."PARTITIONS" (
    "PART_ID" bigint NOT NULL,
    "CREATE_TIME" integer NOT NULL,
    "LAST_ACCESS_TIME" integer NOT NULL,
    "PART_NAME" character varying(767),
    "SD_ID" bigint,
    "TBL_ID" bigint
);
CREATE TABLE public."PARTITION_EVENTS" (
    "PART_NAME_ID" bigint NOT NULL,
    "DB_NAME" character varying(128),
    "EVENT_TIME" bigint NOT NULL,
    "EVENT_TYPE" integer NOT NULL,
    "PARTITION_NAME" character varying(767),
    "TBL_NAME" character varying(256)
);
CREATE TABLE public."PARTITION_KEYS" (
    "TBL_ID" bigint NOT NULL,
    "PKEY_COMMENT" character varying(4000),
    "PKEY_NAME" character varying(128) NOT NULL,
    "PKEY_TYPE" character varying(767) NOT NULL,
    "INTEGER_IDX" integer NOT NULL
);
CREATE TABLE public."PARTITION_KEY_VALS" (
    "PART_ID" bigint NOT NULL,
    "PART_KEY_VAL" character varying(255),
    "INTEGER_IDX" integer NOT NULL
);
CREATE TABLE public."PARTITION_PARAMS" (
    "PART_ID" bigint NOT NULL,
    "PARAM_KEY" character varying(256) NOT NULL,
    "PARAM_VALUE" character varying(4000)
);
CREATE TABLE public."PART_COL_PRIVS" (
    "PART_COLUMN_GRANT_ID" bigint NOT NULL,
    "COLUMN_NAME" character varying(767),
    "CREATE_TIME" integer NOT NULL,
    "GRANT_OPTION" smallint NOT NULL,
    "GRANTOR" character varying(128),
    "GRANTOR_TYPE" character varying(128),
    "PART_ID" bigint,
    "PRINCIPAL_NAME" character varying(128),
    "PRINCIPAL_TYPE" character varying(128),
    "PART_COL_PRIV" character varying(128),
    CONSTRAINT "PART_COL_PRIVS_GRANT_OPTION_check" CHECK (("GRANT_OPTION" = ANY (ARRAY[0, 1])))
);
CREATE TABLE public."PART_COL_STATS" (
    "CS_ID" bigint NOT NULL,
    "AVG_COL_LEN" double precision,
    "COLUMN_NAME" character varying(767) NOT NULL,
    "COLUMN_TYPE" character varying(128) NOT NULL,
    "DB_NAME" character varying(128) NOT NULL,
    "BIG_DECIMAL_HIGH_VALUE" character varying(255),
    "BIG_DECIMAL_LOW_VALUE" character varying(255),
    "DOUBLE_HIGH_VALUE" double precision,
    "DOUBLE_LOW_VALUE" double precision,
    "LAST_ANALYZED" bigint NOT NULL,
    "LONG_HIGH_VALUE" bigint,
    "LONG_LOW_VALUE" bigint,
    "MAX_COL_LEN" bigint,
    "NUM_DISTINCTS" bigint,
    "NUM_FALSES" bigint,
    "NUM_NULLS" bigint NOT NULL,
    "NUM_TRUES" bigint,
    "PART_ID" bigint,
    "PARTITION_NAME" character varying(767) NOT NULL,
    "TABLE_NAME" character varying(256) NOT NULL
);
CREATE TABLE public."PART_PRIVS" (
    "PART_GRANT_ID" bigint NOT NULL,
    "CREATE_TIME" integer NOT NULL,
    "GRANT_OPTION" smallint NOT NULL,
    "GRANTOR" character varying(128),
    "GRANTOR_TYPE" character varying(128),
    "PART_ID" bigint,
    "PRINCIPAL_NAME" character varying(128),
    "PRINCIPAL_TYPE" character varying(128),
    "PART_PRIV" character varying(128),
    CONSTRAINT "PART_PRIVS_GRANT_OPTION_check" CHECK (("GRANT_OPTION" = ANY (ARRAY[0, 1])))
);
CREATE TABLE public."ROLES" (
    "ROLE_ID" bigint NOT NULL,
    "CREATE_TIME" integer NOT NULL,
    "OWNER_NAME" character varying(128),
    "ROLE_NAME" character varying(128)
);
CREATE TABLE public."ROLE_MAP" (
    "ROLE_GRANT_ID" bigint NOT NULL,
    "ADD_TIME" integer NOT NULL,
    "GRANT_OPTION" smallint NOT NULL,
    "GRANTOR" character varying(128),
    "GRANTOR_TYPE" character varying(128),
    "PRINCIPAL_NAME" character varying(128),
    "PRINCIPAL_TYPE" character varying(128),
    "ROLE_ID" bigint,
    CONSTRAINT "ROLE_MAP_GRANT_OPTION_check" CHECK (("GRANT_OPTION" = ANY (ARRAY[0, 1])))
);
CREATE TABLE public."SDS" (
    "SD_ID" bigint NOT NULL,
    "CD_ID" bigint,
    "INPUT_FORMAT" character varying(4000),
    "IS_COMPRESSED" boolean NOT NULL,
    "IS_STOREDASSUBDIRECTORIES" boolean NOT NULL,
    "LOCATION" character varying(4000),
    "NUM_BUCKETS" integer NOT NULL,
    "OUTPUT_FORMAT" character varying(4000),
    "SERDE_ID" bigint
);
CREATE TABLE public."SD_PARAMS" (
    "SD_ID" bigint NOT NULL,
    "PARAM_KEY" character varying(256) NOT NULL,
    "PARAM_VALUE" character varying(32672)
);
CREATE TABLE public."SEQUENCE_TABLE" (
    "SEQUENCE_NAME" character varying(255) NOT NULL,
    "NEXT_VAL" bigint NOT NULL
);
CREATE TABLE public."SERDES" (
    "SERDE_ID" bigint NOT NULL,
    "NAME" character varying(128),
    "SLIB" character varying(4000)
);
CREATE TABLE public."SERDE_PARAMS" (
    "SERDE_ID" bigint NOT NULL,
    "PARAM_KEY" character varying(256) NOT NULL,
    "PARAM_VALUE" character varying(32672)
);
CREATE TABLE public."SKEWED_COL_NAMES" (
    "SD_ID" bigint NOT NULL,
    "SKEWED_COL_NAME" character varying(255),
    "INTEGER_IDX" integer NOT NULL
);
CREATE TABLE public."SKEWED_COL_VALUE_LOC_MAP" (
    "SD_ID" bigint NOT NULL,
    "STRING_LIST_ID_KID" bigint NOT NULL,
    "LOCATION" character varying(4000)
);
CREATE TABLE public."SKEWED_STRING_LIST" (
    "STRING_LIST_ID" bigint NOT NULL
);
CREATE TABLE public."SKEWED_STRING_LIST_VALUES" (
    "STRING_LIST_ID" bigint NOT NULL,
    "STRING_LIST_VALUE" character varying(255),
    "INTEGER_IDX" integer NOT NULL
);
CREATE TABLE public."SKEWED_VALUES" (
    "SD_ID_OID" bigint NOT NULL,
    "STRING_LIST_ID_EID" bigint,
    "INTEGER_IDX" integer NOT NULL
);
CREATE TABLE public."SORT_COLS" (
    "SD_ID" bigint NOT NULL,
    "COLUMN_NAME" character varying(767),
    "ORDER" integer NOT NULL,
    "INTEGER_IDX" integer NOT NULL
);
CREATE TABLE public."TABLE_PARAMS" (
    "TBL_ID" bigint NOT NULL,
    "PARAM_KEY" character varying(256) NOT NULL,
    "PARAM_VALUE" character varying(32672)
);
CREATE TABLE public."TAB_COL_STATS" (
    "CS_ID" bigint NOT NULL,
    "AVG_COL_LEN" double precision,
    "COLUMN_NAME" character varying(767) NOT NULL,
    "COLUMN_TYPE" character varying(128) NOT NULL,
    "DB_NAME" character varying(128) NOT NULL,
    "BIG_DECIMAL_HIGH_VALUE" character varying(255),
    "BIG_DECIMAL_LOW_VALUE" character varying(255),
    "DOUBLE_HIGH_VALUE" double precision,
    "DOUBLE_LOW_VALUE" double precision,
    "LAST_ANALYZED" bigint NOT NULL,
    "LONG_HIGH_VALUE" bigint,
    "LONG_LOW_VALUE" bigint,
    "MAX_COL_LEN" bigint,
    "NUM_DISTINCTS" bigint,
    "NUM_FALSES" bigint,
    "NUM_NULLS" bigint NOT NULL,
    "NUM_TRUES" bigint,
    "TBL_ID" bigint,
    "TABLE_NAME" character varying(256) NOT NULL
);
CREATE TABLE public."TBLS" (
    "TBL_ID" bigint NOT NULL,
    "CREATE_TIME" integer NOT NULL,
    "DB_ID" bigint,
    "LAST_ACCESS_TIME" integer NOT NULL,
    "OWNER" character varying(767),
    "RETENTION" integer NOT NULL,
    "IS_REWRITE_ENABLED" boolean NOT NULL,
    "SD_ID" bigint,
    "TBL_NAME" character varying(256),
    "TBL_TYPE" character varying(128),
    "VIEW_EXPANDED_TEXT" text,
    "VIEW_ORIGINAL_TEXT" text
);
CREATE TABLE public."TBL_COL_PRIVS" (
    "TBL_COLUMN_GRANT_ID" bigint NOT NULL,
    "COLUMN_NAME" character varying(767),
    "CREATE_TIME" integer NOT NULL,
    "GRANT_OPTION" smallint NOT NULL,
    "GRANTOR" character varying(128),
    "GRANTOR_TYPE" character varying(128),
    "PRINCIPAL_NAME" character varying(128),
    "PRINCIPAL_TYPE" character varying(128),
    "TBL_COL_PRIV" character varying(128),
    "TBL_ID" bigint,
    CONSTRAINT "TBL_COL_PRIVS_GRANT_OPTION_check" CHECK (("GRANT_OPTION" = ANY (ARRAY[0, 1])))
);
CREATE TABLE public."TBL_PRIVS" (
    "TBL_GRANT_ID" bigint NOT NULL,
    "CREATE_TIME" integer NOT NULL,
    "GRANT_OPTION" smallint NOT NULL,
    "GRANTOR" character varying(128),
    "GRANTOR_TYPE" character varying(128),
    "PRINCIPAL_NAME" character varying(128),
    "PRINCIPAL_TYPE" character varying(128),
    "TBL_PRIV" character varying(128),
    "TBL_ID" bigint,
    CONSTRAINT "TBL_PRIVS_GRANT_OPTION_check" CHECK (("GRANT_OPTION" = ANY (ARRAY[0, 1])))
);
CREATE TABLE public."TYPES" (
    "TYPES_ID" bigint NOT NULL,
    "TYPE_NAME" character varying(128),
    "TYPE1" character varying(767),
    "TYPE2" character varying(767)
);
CREATE TABLE public."TYPE_FIELDS" (
    "TYPE_NAME" bigint NOT NULL,
    "COMMENT" character varying(256),
    "FIELD_NAME" character varying(128) NOT NULL,
    "FIELD_TYPE" character varying(767) NOT NULL,
    "INTEGER_IDX" integer NOT NULL
);
CREATE TABLE public."VERSION" (
    "VER_ID" bigint NOT NULL,
    "SCHEMA_VERSION" character varying(127) NOT NULL,
    "VERSION_COMMENT" character varying(255) NOT NULL
);
INSERT INTO public."BUCKETING_COLS" VALUES (27, 'id', 0);
INSERT INTO public."BUCKETING_COLS" VALUES (28, 'id', 0);
INSERT INTO public."CDS" VALUES (1);
INSERT INTO public."CDS" VALUES (2);
INSERT INTO public."CDS" VALUES (3);
INSERT INTO public."CDS" VALUES (4);
INSERT INTO public."CDS" VALUES (5);
INSERT INTO public."CDS" VALUES (6);
INSERT INTO public."CDS" VALUES (7);
INSERT INTO public."CDS" VALUES (8);
INSERT INTO public."CDS" VALUES (9);
INSERT INTO public."CDS" VALUES (10);
INSERT INTO public."CDS" VALUES (11);
INSERT INTO public."CDS" VALUES (12);
INSERT INTO public."CDS" VALUES (13);
INSERT INTO public."CDS" VALUES (14);
INSERT INTO public."CDS" VALUES (15);
INSERT INTO public."CDS" VALUES (16);
INSERT INTO public."CDS" VALUES (17);
INSERT INTO public."CDS" VALUES (18);
INSERT INTO public."CDS" VALUES (19);
INSERT INTO public."CDS" VALUES (20);
INSERT INTO public."CDS" VALUES (21);
INSERT INTO public."CDS" VALUES (22);
INSERT INTO public."COLUMNS_V2" VALUES (1, NULL, 'id', 'bigint', 0);
INSERT INTO public."COLUMNS_V2" VALUES (1, NULL, 'name', 'string', 1);
INSERT INTO public."COLUMNS_V2" VALUES (2, NULL, 'id', 'bigint', 0);
INSERT INTO public."COLUMNS_V2" VALUES (2, NULL, 'name', 'string', 1);
INSERT INTO public."COLUMNS_V2" VALUES (3, NULL, 'id', 'bigint', 0);
INSERT INTO public."COLUMNS_V2" VALUES (3, NULL, 'name', 'string', 1);
INSERT INTO public."COLUMNS_V2" VALUES (4, NULL, 'id', 'bigint', 0);
INSERT INTO public."COLUMNS_V2" VALUES (4, NULL, 'name', 'string', 1);
INSERT INTO public."COLUMNS_V2" VALUES (5, NULL, 'id', 'bigint', 0);
INSERT INTO public."COLUMNS_V2" VALUES (5, NULL, 'name', 'string', 1);
INSERT INTO public."COLUMNS_V2" VALUES (6, NULL, 'id', 'bigint', 0);
INSERT INTO public."COLUMNS_V2" VALUES (6, NULL, 'name', 'string', 1);
INSERT INTO public."COLUMNS_V2" VALUES (7, NULL, 'id', 'bigint', 0);
INSERT INTO public."COLUMNS_V2" VALUES (7, NULL, 'name', 'string', 1);
INSERT INTO public."COLUMNS_V2" VALUES (8, NULL, 'id', 'bigint', 0);
INSERT INTO public."COLUMNS_V2" VALUES (8, NULL, 'name', 'string', 1);
INSERT INTO public."COLUMNS_V2" VALUES (9, NULL, 'id', 'bigint', 0);
INSERT INTO public."COLUMNS_V2" VALUES (9, NULL, 'name', 'string', 1);
INSERT INTO public."COLUMNS_V2" VALUES (10, NULL, 'id', 'bigint', 0);
INSERT INTO public."COLUMNS_V2" VALUES (10, NULL, 'name', 'string', 1);
INSERT INTO public."COLUMNS_V2" VALUES (11, NULL, 'id', 'bigint', 0);
INSERT INTO public."COLUMNS_V2" VALUES (11, NULL, 'name', 'string', 1);
INSERT INTO public."COLUMNS_V2" VALUES (12, NULL, 'id', 'bigint', 0);
INSERT INTO public."COLUMNS_V2" VALUES (12, NULL, 'name', 'string', 1);
INSERT INTO public."COLUMNS_V2" VALUES (13, NULL, 'id', 'bigint', 0);
INSERT INTO public."COLUMNS_V2" VALUES (13, NULL, 'name', 'string', 1);
INSERT INTO public."COLUMNS_V2" VALUES (14, NULL, 'id', 'bigint', 0);
INSERT INTO public."COLUMNS_V2" VALUES (14, NULL, 'name', 'string', 1);
INSERT INTO public."COLUMNS_V2" VALUES (15, NULL, 'id', 'bigint', 0);
INSERT INTO public."COLUMNS_V2" VALUES (15, NULL, 'name', 'string', 1);
INSERT INTO public."COLUMNS_V2" VALUES (16, NULL, 'id', 'bigint', 0);
INSERT INTO public."COLUMNS_V2" VALUES (16, NULL, 'name', 'string', 1);
INSERT INTO public."COLUMNS_V2" VALUES (17, NULL, 'id', 'bigint', 0);
INSERT INTO public."COLUMNS_V2" VALUES (17, NULL, 'name', 'string', 1);
INSERT INTO public."COLUMNS_V2" VALUES (18, NULL, 'id', 'bigint', 0);
INSERT INTO public."COLUMNS_V2" VALUES (18, NULL, 'name', 'string', 1);
INSERT INTO public."COLUMNS_V2" VALUES (19, NULL, 'id', 'bigint', 0);
INSERT INTO public."COLUMNS_V2" VALUES (19, NULL, 'name', 'string', 1);
INSERT INTO public."COLUMNS_V2" VALUES (20, NULL, 'id', 'bigint', 0);
INSERT INTO public."COLUMNS_V2" VALUES (20, NULL, 'name', 'string', 1);
INSERT INTO public."COLUMNS_V2" VALUES (21, NULL, 'id', 'bigint', 0);
INSERT INTO public."COLUMNS_V2" VALUES (22, NULL, 'id', 'bigint', 0);
INSERT INTO public."COLUMNS_V2" VALUES (22, NULL, 'name', 'string', 1);
INSERT INTO public."DBS" VALUES (1, 'Default Hive database', 'file:@WAREHOUSE@', 'default', 'public', 'ROLE');
INSERT INTO public."DBS" VALUES (2, 'what tests look at', 'file:@WAREHOUSE@/sales.db', 'sales', 'root', 'USER');
INSERT INTO public."GLOBAL_PRIVS" VALUES (1, 1794811480, 1, 'admin', 'ROLE', 'admin', 'ROLE', 'All');
INSERT INTO public."PARTITIONS" VALUES (1, 1794811484, 0, 'dt=2026-01-01', 7, 1);
INSERT INTO public."PARTITIONS" VALUES (2, 1794811484, 0, 'dt=2026-01-02', 8, 1);
INSERT INTO public."PARTITIONS" VALUES (3, 1794811485, 0, 'dt=2026-01-01', 9, 2);
INSERT INTO public."PARTITIONS" VALUES (4, 1794811485, 0, 'dt=2026-01-02', 10, 2);
INSERT INTO public."PARTITIONS" VALUES (5, 1794811485, 0, 'dt=2026-01-01', 11, 3);
INSERT INTO public."PARTITIONS" VALUES (6, 1794811485, 0, 'dt=2026-01-02', 12, 3);
INSERT INTO public."PARTITIONS" VALUES (7, 1794811486, 0, 'dt=2026-01-01', 13, 4);
INSERT INTO public."PARTITIONS" VALUES (8, 1794811486, 0, 'dt=2026-01-02', 14, 4);
INSERT INTO public."PARTITIONS" VALUES (9, 1794811486, 0, 'dt=2026-01-01', 15, 5);
INSERT INTO public."PARTITIONS" VALUES (10, 1794811486, 0, 'dt=2026-01-02', 16, 5);
INSERT INTO public."PARTITIONS" VALUES (11, 1794811487, 0, 'dt=2026-01-01', 17, 6);
INSERT INTO public."PARTITIONS" VALUES (12, 1794811487, 0, 'dt=2026-01-02', 18, 6);
INSERT INTO public."PARTITIONS" VALUES (13, 1794811488, 0, 'dt=text', 21, 8);
INSERT INTO public."PARTITIONS" VALUES (14, 1794811488, 0, 'dt=parquet', 22, 8);
INSERT INTO public."PARTITIONS" VALUES (15, 1794811488, 0, 'dt=orc', 23, 8);
INSERT INTO public."PARTITIONS" VALUES (16, 1794811489, 0, 'dt=a b%3Ac/hour=3', 25, 9);
INSERT INTO public."PARTITIONS" VALUES (17, 1794811489, 0, 'dt=2026-01-01/hour=4', 26, 9);
INSERT INTO public."PARTITIONS" VALUES (18, 1794811491, 0, 'dt=1', 33, 15);
INSERT INTO public."PARTITIONS" VALUES (19, 1794811492, 0, 'dt=2', 34, 15);
INSERT INTO public."PARTITION_KEYS" VALUES (1, NULL, 'dt', 'string', 0);
INSERT INTO public."PARTITION_KEYS" VALUES (2, NULL, 'dt', 'string', 0);
INSERT INTO public."PARTITION_KEYS" VALUES (3, NULL, 'dt', 'string', 0);
INSERT INTO public."PARTITION_KEYS" VALUES (4, NULL, 'dt', 'string', 0);
INSERT INTO public."PARTITION_KEYS" VALUES (5, NULL, 'dt', 'string', 0);
INSERT INTO public."PARTITION_KEYS" VALUES (6, NULL, 'dt', 'string', 0);
INSERT INTO public."PARTITION_KEYS" VALUES (8, NULL, 'dt', 'string', 0);
INSERT INTO public."PARTITION_KEYS" VALUES (9, NULL, 'dt', 'string', 0);
INSERT INTO public."PARTITION_KEYS" VALUES (9, NULL, 'hour', 'int', 1);
INSERT INTO public."PARTITION_KEYS" VALUES (15, NULL, 'dt', 'string', 0);
INSERT INTO public."PARTITION_KEYS" VALUES (19, NULL, 'dt', 'string', 0);
INSERT INTO public."PARTITION_KEY_VALS" VALUES (1, '2026-01-01', 0);
INSERT INTO public."PARTITION_KEY_VALS" VALUES (2, '2026-01-02', 0);
INSERT INTO public."PARTITION_KEY_VALS" VALUES (3, '2026-01-01', 0);
INSERT INTO public."PARTITION_KEY_VALS" VALUES (4, '2026-01-02', 0);
INSERT INTO public."PARTITION_KEY_VALS" VALUES (5, '2026-01-01', 0);
INSERT INTO public."PARTITION_KEY_VALS" VALUES (6, '2026-01-02', 0);
INSERT INTO public."PARTITION_KEY_VALS" VALUES (7, '2026-01-01', 0);
INSERT INTO public."PARTITION_KEY_VALS" VALUES (8, '2026-01-02', 0);
INSERT INTO public."PARTITION_KEY_VALS" VALUES (9, '2026-01-01', 0);
INSERT INTO public."PARTITION_KEY_VALS" VALUES (10, '2026-01-02', 0);
INSERT INTO public."PARTITION_KEY_VALS" VALUES (11, '2026-01-01', 0);
INSERT INTO public."PARTITION_KEY_VALS" VALUES (12, '2026-01-02', 0);
INSERT INTO public."PARTITION_KEY_VALS" VALUES (13, 'text', 0);
INSERT INTO public."PARTITION_KEY_VALS" VALUES (14, 'parquet', 0);
INSERT INTO public."PARTITION_KEY_VALS" VALUES (15, 'orc', 0);
INSERT INTO public."PARTITION_KEY_VALS" VALUES (16, 'a b:c', 0);
INSERT INTO public."PARTITION_KEY_VALS" VALUES (16, '3', 1);
INSERT INTO public."PARTITION_KEY_VALS" VALUES (17, '2026-01-01', 0);
INSERT INTO public."PARTITION_KEY_VALS" VALUES (17, '4', 1);
INSERT INTO public."PARTITION_KEY_VALS" VALUES (18, '1', 0);
INSERT INTO public."PARTITION_KEY_VALS" VALUES (19, '2', 0);
INSERT INTO public."PARTITION_PARAMS" VALUES (1, 'transient_lastDdlTime', '1794811484');
INSERT INTO public."PARTITION_PARAMS" VALUES (2, 'transient_lastDdlTime', '1794811484');
INSERT INTO public."PARTITION_PARAMS" VALUES (3, 'transient_lastDdlTime', '1794811485');
INSERT INTO public."PARTITION_PARAMS" VALUES (4, 'transient_lastDdlTime', '1794811485');
INSERT INTO public."PARTITION_PARAMS" VALUES (5, 'transient_lastDdlTime', '1794811485');
INSERT INTO public."PARTITION_PARAMS" VALUES (6, 'transient_lastDdlTime', '1794811485');
INSERT INTO public."PARTITION_PARAMS" VALUES (7, 'transient_lastDdlTime', '1794811486');
INSERT INTO public."PARTITION_PARAMS" VALUES (8, 'transient_lastDdlTime', '1794811486');
INSERT INTO public."PARTITION_PARAMS" VALUES (9, 'transient_lastDdlTime', '1794811486');
INSERT INTO public."PARTITION_PARAMS" VALUES (10, 'transient_lastDdlTime', '1794811486');
INSERT INTO public."PARTITION_PARAMS" VALUES (11, 'transient_lastDdlTime', '1794811487');
INSERT INTO public."PARTITION_PARAMS" VALUES (12, 'transient_lastDdlTime', '1794811487');
INSERT INTO public."PARTITION_PARAMS" VALUES (13, 'transient_lastDdlTime', '1794811488');
INSERT INTO public."PARTITION_PARAMS" VALUES (14, 'transient_lastDdlTime', '1794811488');
INSERT INTO public."PARTITION_PARAMS" VALUES (15, 'transient_lastDdlTime', '1794811488');
INSERT INTO public."PARTITION_PARAMS" VALUES (16, 'transient_lastDdlTime', '1794811489');
INSERT INTO public."PARTITION_PARAMS" VALUES (17, 'transient_lastDdlTime', '1794811489');
INSERT INTO public."PARTITION_PARAMS" VALUES (18, 'transient_lastDdlTime', '1794811491');
INSERT INTO public."PARTITION_PARAMS" VALUES (19, 'transient_lastDdlTime', '1794811492');
INSERT INTO public."PARTITION_PARAMS" VALUES (14, 'numFiles', '0');
INSERT INTO public."PARTITION_PARAMS" VALUES (14, 'totalSize', '0');
INSERT INTO public."PARTITION_PARAMS" VALUES (15, 'numFiles', '0');
INSERT INTO public."PARTITION_PARAMS" VALUES (15, 'totalSize', '0');
INSERT INTO public."PARTITION_PARAMS" VALUES (19, 'totalSize', '0');
INSERT INTO public."PARTITION_PARAMS" VALUES (19, 'is_archived', 'true');
INSERT INTO public."PARTITION_PARAMS" VALUES (19, 'numFiles', '0');
INSERT INTO public."ROLES" VALUES (1, 1794811480, 'admin', 'admin');
INSERT INTO public."ROLES" VALUES (2, 1794811480, 'public', 'public');
INSERT INTO public."SDS" VALUES (1, 1, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/t_parquet', -1, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat', 1);
INSERT INTO public."SDS" VALUES (2, 2, 'org.apache.hadoop.hive.ql.io.orc.OrcInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/t_orc', -1, 'org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat', 2);
INSERT INTO public."SDS" VALUES (3, 3, 'org.apache.hadoop.mapred.TextInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/t_textfile', -1, 'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat', 3);
INSERT INTO public."SDS" VALUES (4, 4, 'org.apache.hadoop.hive.ql.io.avro.AvroContainerInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/t_avro', -1, 'org.apache.hadoop.hive.ql.io.avro.AvroContainerOutputFormat', 4);
INSERT INTO public."SDS" VALUES (5, 5, 'org.apache.hadoop.mapred.SequenceFileInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/t_sequencefile', -1, 'org.apache.hadoop.mapred.SequenceFileOutputFormat', 5);
INSERT INTO public."SDS" VALUES (6, 6, 'org.apache.hadoop.hive.ql.io.RCFileInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/t_rcfile', -1, 'org.apache.hadoop.hive.ql.io.RCFileOutputFormat', 6);
INSERT INTO public."SDS" VALUES (7, 1, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/t_parquet/dt=2026-01-01', -1, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat', 7);
INSERT INTO public."SDS" VALUES (8, 1, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/t_parquet/dt=2026-01-02', -1, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat', 8);
INSERT INTO public."SDS" VALUES (9, 2, 'org.apache.hadoop.hive.ql.io.orc.OrcInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/t_orc/dt=2026-01-01', -1, 'org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat', 9);
INSERT INTO public."SDS" VALUES (10, 2, 'org.apache.hadoop.hive.ql.io.orc.OrcInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/t_orc/dt=2026-01-02', -1, 'org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat', 10);
INSERT INTO public."SDS" VALUES (11, 3, 'org.apache.hadoop.mapred.TextInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/t_textfile/dt=2026-01-01', -1, 'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat', 11);
INSERT INTO public."SDS" VALUES (12, 3, 'org.apache.hadoop.mapred.TextInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/t_textfile/dt=2026-01-02', -1, 'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat', 12);
INSERT INTO public."SDS" VALUES (13, 4, 'org.apache.hadoop.hive.ql.io.avro.AvroContainerInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/t_avro/dt=2026-01-01', -1, 'org.apache.hadoop.hive.ql.io.avro.AvroContainerOutputFormat', 13);
INSERT INTO public."SDS" VALUES (14, 4, 'org.apache.hadoop.hive.ql.io.avro.AvroContainerInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/t_avro/dt=2026-01-02', -1, 'org.apache.hadoop.hive.ql.io.avro.AvroContainerOutputFormat', 14);
INSERT INTO public."SDS" VALUES (15, 5, 'org.apache.hadoop.mapred.SequenceFileInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/t_sequencefile/dt=2026-01-01', -1, 'org.apache.hadoop.mapred.SequenceFileOutputFormat', 15);
INSERT INTO public."SDS" VALUES (16, 5, 'org.apache.hadoop.mapred.SequenceFileInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/t_sequencefile/dt=2026-01-02', -1, 'org.apache.hadoop.mapred.SequenceFileOutputFormat', 16);
INSERT INTO public."SDS" VALUES (17, 6, 'org.apache.hadoop.hive.ql.io.RCFileInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/t_rcfile/dt=2026-01-01', -1, 'org.apache.hadoop.hive.ql.io.RCFileOutputFormat', 17);
INSERT INTO public."SDS" VALUES (18, 6, 'org.apache.hadoop.hive.ql.io.RCFileInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/t_rcfile/dt=2026-01-02', -1, 'org.apache.hadoop.hive.ql.io.RCFileOutputFormat', 18);
INSERT INTO public."SDS" VALUES (19, 7, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/plain', -1, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat', 19);
INSERT INTO public."SDS" VALUES (20, 8, 'org.apache.hadoop.mapred.TextInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/mixed', -1, 'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat', 20);
INSERT INTO public."SDS" VALUES (21, 8, 'org.apache.hadoop.mapred.TextInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/mixed/dt=text', -1, 'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat', 21);
INSERT INTO public."SDS" VALUES (24, 9, 'org.apache.hadoop.mapred.TextInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/headed', -1, 'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat', 24);
INSERT INTO public."SDS" VALUES (25, 9, 'org.apache.hadoop.mapred.TextInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/headed/dt=a b%3Ac/hour=3', -1, 'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat', 25);
INSERT INTO public."SDS" VALUES (26, 9, 'org.apache.hadoop.mapred.TextInputFormat', false, false, 'file:@ELSEWHERE@/hour4', -1, 'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat', 26);
INSERT INTO public."SDS" VALUES (27, 10, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/bucketed', 4, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat', 27);
INSERT INTO public."SDS" VALUES (28, 11, 'org.apache.hadoop.hive.ql.io.orc.OrcInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/acid', 2, 'org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat', 28);
INSERT INTO public."SDS" VALUES (29, 12, 'org.apache.hadoop.mapred.TextInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/handled', -1, 'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat', 29);
INSERT INTO public."SDS" VALUES (30, 13, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/lake_delta', -1, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat', 30);
INSERT INTO public."SDS" VALUES (31, 14, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/lake_iceberg', -1, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat', 31);
INSERT INTO public."SDS" VALUES (32, 15, 'org.apache.hadoop.mapred.TextInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/archived', -1, 'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat', 32);
INSERT INTO public."SDS" VALUES (33, 15, 'org.apache.hadoop.mapred.TextInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/archived/dt=1', -1, 'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat', 33);
INSERT INTO public."SDS" VALUES (34, 15, 'org.apache.hadoop.mapred.TextInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/archived/dt=2', -1, 'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat', 34);
INSERT INTO public."SDS" VALUES (23, 8, 'org.apache.hadoop.hive.ql.io.orc.OrcInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/mixed/dt=orc', -1, 'org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat', 23);
INSERT INTO public."SDS" VALUES (36, 17, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat', false, false, 'file:@ELSEWHERE@/shared', -1, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat', 36);
INSERT INTO public."SDS" VALUES (37, 18, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat', false, false, 'file:@ELSEWHERE@/shared', -1, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat', 37);
INSERT INTO public."SDS" VALUES (38, 19, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat', false, false, 'file:@ELSEWHERE@/outer', -1, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat', 38);
INSERT INTO public."SDS" VALUES (39, 20, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat', false, false, 'file:@ELSEWHERE@/outer/dt=9', -1, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat', 39);
INSERT INTO public."SDS" VALUES (40, 21, 'org.apache.hadoop.mapred.SequenceFileInputFormat', false, false, NULL, -1, 'org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat', 40);
INSERT INTO public."SDS" VALUES (41, 22, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat', false, false, 'file:@ELSEWHERE@/external', -1, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat', 41);
INSERT INTO public."SDS" VALUES (22, 8, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat', false, false, 'file:@WAREHOUSE@/sales.db/mixed/dt=parquet', -1, 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat', 22);
INSERT INTO public."SDS" VALUES (35, 16, 'org.apache.hadoop.mapred.TextInputFormat', false, true, 'file:@WAREHOUSE@/sales.db/skewed', -1, 'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat', 35);
INSERT INTO public."SEQUENCE_TABLE" VALUES ('org.apache.hadoop.hive.metastore.model.MDatabase', 6);
INSERT INTO public."SEQUENCE_TABLE" VALUES ('org.apache.hadoop.hive.metastore.model.MRole', 6);
INSERT INTO public."SEQUENCE_TABLE" VALUES ('org.apache.hadoop.hive.metastore.model.MGlobalPrivilege', 6);
INSERT INTO public."SEQUENCE_TABLE" VALUES ('org.apache.hadoop.hive.metastore.model.MPartition', 21);
INSERT INTO public."SEQUENCE_TABLE" VALUES ('org.apache.hadoop.hive.metastore.model.MTable', 26);
INSERT INTO public."SEQUENCE_TABLE" VALUES ('org.apache.hadoop.hive.metastore.model.MColumnDescriptor', 26);
INSERT INTO public."SEQUENCE_TABLE" VALUES ('org.apache.hadoop.hive.metastore.model.MStorageDescriptor', 46);
INSERT INTO public."SEQUENCE_TABLE" VALUES ('org.apache.hadoop.hive.metastore.model.MSerDeInfo', 46);
INSERT INTO public."SEQUENCE_TABLE" VALUES ('org.apache.hadoop.hive.metastore.model.MTablePrivilege', 91);
INSERT INTO public."SEQUENCE_TABLE" VALUES ('org.apache.hadoop.hive.metastore.model.MStringList', 6);
INSERT INTO public."SERDES" VALUES (1, NULL, 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO public."SERDES" VALUES (2, NULL, 'org.apache.hadoop.hive.ql.io.orc.OrcSerde');
INSERT INTO public."SERDES" VALUES (3, NULL, 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO public."SERDES" VALUES (4, NULL, 'org.apache.hadoop.hive.serde2.avro.AvroSerDe');
INSERT INTO public."SERDES" VALUES (5, NULL, 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO public."SERDES" VALUES (6, NULL, 'org.apache.hadoop.hive.serde2.columnar.LazyBinaryColumnarSerDe');
INSERT INTO public."SERDES" VALUES (7, NULL, 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO public."SERDES" VALUES (8, NULL, 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO public."SERDES" VALUES (9, NULL, 'org.apache.hadoop.hive.ql.io.orc.OrcSerde');
INSERT INTO public."SERDES" VALUES (10, NULL, 'org.apache.hadoop.hive.ql.io.orc.OrcSerde');
INSERT INTO public."SERDES" VALUES (11, NULL, 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO public."SERDES" VALUES (12, NULL, 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO public."SERDES" VALUES (13, NULL, 'org.apache.hadoop.hive.serde2.avro.AvroSerDe');
INSERT INTO public."SERDES" VALUES (14, NULL, 'org.apache.hadoop.hive.serde2.avro.AvroSerDe');
INSERT INTO public."SERDES" VALUES (15, NULL, 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO public."SERDES" VALUES (16, NULL, 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO public."SERDES" VALUES (17, NULL, 'org.apache.hadoop.hive.serde2.columnar.LazyBinaryColumnarSerDe');
INSERT INTO public."SERDES" VALUES (18, NULL, 'org.apache.hadoop.hive.serde2.columnar.LazyBinaryColumnarSerDe');
INSERT INTO public."SERDES" VALUES (19, NULL, 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO public."SERDES" VALUES (20, NULL, 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO public."SERDES" VALUES (21, NULL, 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO public."SERDES" VALUES (24, NULL, 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO public."SERDES" VALUES (25, NULL, 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO public."SERDES" VALUES (26, NULL, 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO public."SERDES" VALUES (27, NULL, 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO public."SERDES" VALUES (28, NULL, 'org.apache.hadoop.hive.ql.io.orc.OrcSerde');
INSERT INTO public."SERDES" VALUES (29, NULL, 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO public."SERDES" VALUES (30, NULL, 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO public."SERDES" VALUES (31, NULL, 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO public."SERDES" VALUES (32, NULL, 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO public."SERDES" VALUES (33, NULL, 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO public."SERDES" VALUES (34, NULL, 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO public."SERDES" VALUES (35, NULL, 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO public."SERDES" VALUES (36, NULL, 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO public."SERDES" VALUES (37, NULL, 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO public."SERDES" VALUES (38, NULL, 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO public."SERDES" VALUES (39, NULL, 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO public."SERDES" VALUES (40, NULL, 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO public."SERDES" VALUES (41, NULL, 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO public."SERDES" VALUES (22, NULL, 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO public."SERDES" VALUES (23, NULL, 'org.apache.hadoop.hive.ql.io.orc.OrcSerde');
INSERT INTO public."SERDE_PARAMS" VALUES (1, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (2, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (3, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (4, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (5, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (6, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (7, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (8, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (9, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (10, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (11, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (12, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (13, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (14, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (15, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (16, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (17, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (18, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (19, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (20, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (21, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (22, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (23, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (24, 'serialization.format', ',');
INSERT INTO public."SERDE_PARAMS" VALUES (24, 'field.delim', ',');
INSERT INTO public."SERDE_PARAMS" VALUES (25, 'serialization.format', ',');
INSERT INTO public."SERDE_PARAMS" VALUES (25, 'field.delim', ',');
INSERT INTO public."SERDE_PARAMS" VALUES (26, 'serialization.format', ',');
INSERT INTO public."SERDE_PARAMS" VALUES (26, 'field.delim', ',');
INSERT INTO public."SERDE_PARAMS" VALUES (27, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (28, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (29, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (30, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (31, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (32, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (33, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (34, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (35, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (36, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (37, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (38, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (39, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (40, 'serialization.format', '1');
INSERT INTO public."SERDE_PARAMS" VALUES (41, 'serialization.format', '1');
INSERT INTO public."SKEWED_COL_NAMES" VALUES (35, 'id', 0);
INSERT INTO public."SKEWED_STRING_LIST" VALUES (1);
INSERT INTO public."SKEWED_STRING_LIST_VALUES" VALUES (1, '1', 0);
INSERT INTO public."SKEWED_VALUES" VALUES (35, 1, 0);
INSERT INTO public."SORT_COLS" VALUES (27, 'name', 1, 0);
INSERT INTO public."TABLE_PARAMS" VALUES (1, 'spark.sql.sources.schema.numPartCols', '1');
INSERT INTO public."TABLE_PARAMS" VALUES (1, 'spark.sql.create.version', '4.3.0');
INSERT INTO public."TABLE_PARAMS" VALUES (1, 'spark.sql.sources.schema.partCol.0', 'dt');
INSERT INTO public."TABLE_PARAMS" VALUES (1, 'spark.sql.sources.schema', '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"name","type":"string","nullable":true,"metadata":{}},{"name":"dt","type":"string","nullable":true,"metadata":{}}]}');
INSERT INTO public."TABLE_PARAMS" VALUES (1, 'transient_lastDdlTime', '1794811481');
INSERT INTO public."TABLE_PARAMS" VALUES (2, 'spark.sql.sources.schema.numPartCols', '1');
INSERT INTO public."TABLE_PARAMS" VALUES (2, 'spark.sql.create.version', '4.3.0');
INSERT INTO public."TABLE_PARAMS" VALUES (2, 'spark.sql.sources.schema.partCol.0', 'dt');
INSERT INTO public."TABLE_PARAMS" VALUES (2, 'spark.sql.sources.schema', '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"name","type":"string","nullable":true,"metadata":{}},{"name":"dt","type":"string","nullable":true,"metadata":{}}]}');
INSERT INTO public."TABLE_PARAMS" VALUES (2, 'transient_lastDdlTime', '1794811481');
INSERT INTO public."TABLE_PARAMS" VALUES (3, 'spark.sql.sources.schema.numPartCols', '1');
INSERT INTO public."TABLE_PARAMS" VALUES (3, 'spark.sql.create.version', '4.3.0');
INSERT INTO public."TABLE_PARAMS" VALUES (3, 'spark.sql.sources.schema.partCol.0', 'dt');
INSERT INTO public."TABLE_PARAMS" VALUES (3, 'spark.sql.sources.schema', '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"name","type":"string","nullable":true,"metadata":{}},{"name":"dt","type":"string","nullable":true,"metadata":{}}]}');
INSERT INTO public."TABLE_PARAMS" VALUES (3, 'transient_lastDdlTime', '1794811482');
INSERT INTO public."TABLE_PARAMS" VALUES (4, 'spark.sql.sources.schema.numPartCols', '1');
INSERT INTO public."TABLE_PARAMS" VALUES (4, 'spark.sql.create.version', '4.3.0');
INSERT INTO public."TABLE_PARAMS" VALUES (4, 'spark.sql.sources.schema.partCol.0', 'dt');
INSERT INTO public."TABLE_PARAMS" VALUES (4, 'spark.sql.sources.schema', '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"name","type":"string","nullable":true,"metadata":{}},{"name":"dt","type":"string","nullable":true,"metadata":{}}]}');
INSERT INTO public."TABLE_PARAMS" VALUES (4, 'transient_lastDdlTime', '1794811482');
INSERT INTO public."TABLE_PARAMS" VALUES (5, 'transient_lastDdlTime', '1794811483');
INSERT INTO public."TABLE_PARAMS" VALUES (5, 'spark.sql.sources.schema.numPartCols', '1');
INSERT INTO public."TABLE_PARAMS" VALUES (5, 'spark.sql.create.version', '4.3.0');
INSERT INTO public."TABLE_PARAMS" VALUES (5, 'spark.sql.sources.schema.partCol.0', 'dt');
INSERT INTO public."TABLE_PARAMS" VALUES (5, 'spark.sql.sources.schema', '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"name","type":"string","nullable":true,"metadata":{}},{"name":"dt","type":"string","nullable":true,"metadata":{}}]}');
INSERT INTO public."TABLE_PARAMS" VALUES (6, 'transient_lastDdlTime', '1794811483');
INSERT INTO public."TABLE_PARAMS" VALUES (6, 'spark.sql.sources.schema.numPartCols', '1');
INSERT INTO public."TABLE_PARAMS" VALUES (6, 'spark.sql.create.version', '4.3.0');
INSERT INTO public."TABLE_PARAMS" VALUES (6, 'spark.sql.sources.schema.partCol.0', 'dt');
INSERT INTO public."TABLE_PARAMS" VALUES (6, 'spark.sql.sources.schema', '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"name","type":"string","nullable":true,"metadata":{}},{"name":"dt","type":"string","nullable":true,"metadata":{}}]}');
INSERT INTO public."TABLE_PARAMS" VALUES (7, 'transient_lastDdlTime', '1794811487');
INSERT INTO public."TABLE_PARAMS" VALUES (7, 'spark.sql.create.version', '4.3.0');
INSERT INTO public."TABLE_PARAMS" VALUES (7, 'spark.sql.sources.schema', '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"name","type":"string","nullable":true,"metadata":{}}]}');
INSERT INTO public."TABLE_PARAMS" VALUES (8, 'spark.sql.sources.schema.numPartCols', '1');
INSERT INTO public."TABLE_PARAMS" VALUES (8, 'transient_lastDdlTime', '1794811487');
INSERT INTO public."TABLE_PARAMS" VALUES (8, 'spark.sql.create.version', '4.3.0');
INSERT INTO public."TABLE_PARAMS" VALUES (8, 'spark.sql.sources.schema.partCol.0', 'dt');
INSERT INTO public."TABLE_PARAMS" VALUES (8, 'spark.sql.sources.schema', '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"name","type":"string","nullable":true,"metadata":{}},{"name":"dt","type":"string","nullable":true,"metadata":{}}]}');
INSERT INTO public."TABLE_PARAMS" VALUES (9, 'skip.header.line.count', '1');
INSERT INTO public."TABLE_PARAMS" VALUES (9, 'spark.sql.sources.schema.numPartCols', '2');
INSERT INTO public."TABLE_PARAMS" VALUES (9, 'transient_lastDdlTime', '1794811488');
INSERT INTO public."TABLE_PARAMS" VALUES (9, 'spark.sql.sources.schema', '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"name","type":"string","nullable":true,"metadata":{}},{"name":"dt","type":"string","nullable":true,"metadata":{}},{"name":"hour","type":"integer","nullable":true,"metadata":{}}]}');
INSERT INTO public."TABLE_PARAMS" VALUES (9, 'spark.sql.create.version', '4.3.0');
INSERT INTO public."TABLE_PARAMS" VALUES (9, 'spark.sql.sources.schema.partCol.0', 'dt');
INSERT INTO public."TABLE_PARAMS" VALUES (9, 'spark.sql.sources.schema.partCol.1', 'hour');
INSERT INTO public."TABLE_PARAMS" VALUES (10, 'spark.sql.sources.schema.numBuckets', '4');
INSERT INTO public."TABLE_PARAMS" VALUES (10, 'spark.sql.create.version', '4.3.0');
INSERT INTO public."TABLE_PARAMS" VALUES (10, 'spark.sql.sources.schema.sortCol.0', 'name');
INSERT INTO public."TABLE_PARAMS" VALUES (10, 'spark.sql.sources.schema', '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"name","type":"string","nullable":true,"metadata":{}}]}');
INSERT INTO public."TABLE_PARAMS" VALUES (10, 'spark.sql.sources.schema.bucketCol.0', 'id');
INSERT INTO public."TABLE_PARAMS" VALUES (10, 'spark.sql.sources.schema.numBucketCols', '1');
INSERT INTO public."TABLE_PARAMS" VALUES (10, 'spark.sql.sources.schema.numSortCols', '1');
INSERT INTO public."TABLE_PARAMS" VALUES (10, 'transient_lastDdlTime', '1794811490');
INSERT INTO public."TABLE_PARAMS" VALUES (11, 'spark.sql.sources.schema.numBuckets', '2');
INSERT INTO public."TABLE_PARAMS" VALUES (11, 'spark.sql.create.version', '4.3.0');
INSERT INTO public."TABLE_PARAMS" VALUES (11, 'spark.sql.sources.schema', '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"name","type":"string","nullable":true,"metadata":{}}]}');
INSERT INTO public."TABLE_PARAMS" VALUES (11, 'spark.sql.sources.schema.bucketCol.0', 'id');
INSERT INTO public."TABLE_PARAMS" VALUES (11, 'spark.sql.sources.schema.numBucketCols', '1');
INSERT INTO public."TABLE_PARAMS" VALUES (11, 'transient_lastDdlTime', '1794811490');
INSERT INTO public."TABLE_PARAMS" VALUES (12, 'spark.sql.create.version', '4.3.0');
INSERT INTO public."TABLE_PARAMS" VALUES (12, 'spark.sql.sources.schema', '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"name","type":"string","nullable":true,"metadata":{}}]}');
INSERT INTO public."TABLE_PARAMS" VALUES (12, 'transient_lastDdlTime', '1794811490');
INSERT INTO public."TABLE_PARAMS" VALUES (13, 'spark.sql.create.version', '4.3.0');
INSERT INTO public."TABLE_PARAMS" VALUES (13, 'spark.sql.sources.schema', '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"name","type":"string","nullable":true,"metadata":{}}]}');
INSERT INTO public."TABLE_PARAMS" VALUES (13, 'transient_lastDdlTime', '1794811491');
INSERT INTO public."TABLE_PARAMS" VALUES (14, 'spark.sql.create.version', '4.3.0');
INSERT INTO public."TABLE_PARAMS" VALUES (14, 'spark.sql.sources.schema', '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"name","type":"string","nullable":true,"metadata":{}}]}');
INSERT INTO public."TABLE_PARAMS" VALUES (14, 'transient_lastDdlTime', '1794811491');
INSERT INTO public."TABLE_PARAMS" VALUES (15, 'spark.sql.sources.schema.numPartCols', '1');
INSERT INTO public."TABLE_PARAMS" VALUES (15, 'spark.sql.create.version', '4.3.0');
INSERT INTO public."TABLE_PARAMS" VALUES (15, 'spark.sql.sources.schema.partCol.0', 'dt');
INSERT INTO public."TABLE_PARAMS" VALUES (15, 'spark.sql.sources.schema', '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"name","type":"string","nullable":true,"metadata":{}},{"name":"dt","type":"string","nullable":true,"metadata":{}}]}');
INSERT INTO public."TABLE_PARAMS" VALUES (15, 'transient_lastDdlTime', '1794811491');
INSERT INTO public."TABLE_PARAMS" VALUES (16, 'spark.sql.create.version', '4.3.0');
INSERT INTO public."TABLE_PARAMS" VALUES (16, 'spark.sql.sources.schema', '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"name","type":"string","nullable":true,"metadata":{}}]}');
INSERT INTO public."TABLE_PARAMS" VALUES (16, 'transient_lastDdlTime', '1794811492');
INSERT INTO public."TABLE_PARAMS" VALUES (17, 'spark.sql.create.version', '4.3.0');
INSERT INTO public."TABLE_PARAMS" VALUES (17, 'spark.sql.sources.schema', '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"name","type":"string","nullable":true,"metadata":{}}]}');
INSERT INTO public."TABLE_PARAMS" VALUES (17, 'transient_lastDdlTime', '1794811492');
INSERT INTO public."TABLE_PARAMS" VALUES (17, 'EXTERNAL', 'TRUE');
INSERT INTO public."TABLE_PARAMS" VALUES (18, 'totalSize', '0');
INSERT INTO public."TABLE_PARAMS" VALUES (18, 'numFiles', '0');
INSERT INTO public."TABLE_PARAMS" VALUES (18, 'spark.sql.create.version', '4.3.0');
INSERT INTO public."TABLE_PARAMS" VALUES (18, 'spark.sql.sources.schema', '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"name","type":"string","nullable":true,"metadata":{}}]}');
INSERT INTO public."TABLE_PARAMS" VALUES (18, 'transient_lastDdlTime', '1794811492');
INSERT INTO public."TABLE_PARAMS" VALUES (18, 'EXTERNAL', 'TRUE');
INSERT INTO public."TABLE_PARAMS" VALUES (19, 'spark.sql.sources.schema.numPartCols', '1');
INSERT INTO public."TABLE_PARAMS" VALUES (19, 'spark.sql.create.version', '4.3.0');
INSERT INTO public."TABLE_PARAMS" VALUES (19, 'spark.sql.sources.schema.partCol.0', 'dt');
INSERT INTO public."TABLE_PARAMS" VALUES (19, 'spark.sql.sources.schema', '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"name","type":"string","nullable":true,"metadata":{}},{"name":"dt","type":"string","nullable":true,"metadata":{}}]}');
INSERT INTO public."TABLE_PARAMS" VALUES (19, 'EXTERNAL', 'TRUE');
INSERT INTO public."TABLE_PARAMS" VALUES (19, 'transient_lastDdlTime', '1794811493');
INSERT INTO public."TABLE_PARAMS" VALUES (20, 'spark.sql.create.version', '4.3.0');
INSERT INTO public."TABLE_PARAMS" VALUES (20, 'spark.sql.sources.schema', '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"name","type":"string","nullable":true,"metadata":{}}]}');
INSERT INTO public."TABLE_PARAMS" VALUES (20, 'EXTERNAL', 'TRUE');
INSERT INTO public."TABLE_PARAMS" VALUES (20, 'transient_lastDdlTime', '1794811493');
INSERT INTO public."TABLE_PARAMS" VALUES (21, 'view.query.out.numCols', '1');
INSERT INTO public."TABLE_PARAMS" VALUES (21, 'view.referredTempViewNames', '[]');
INSERT INTO public."TABLE_PARAMS" VALUES (21, 'spark.sql.create.version', '4.3.0');
INSERT INTO public."TABLE_PARAMS" VALUES (21, 'view.referredTempVariablesNames', '[]');
INSERT INTO public."TABLE_PARAMS" VALUES (21, 'spark.sql.sources.schema', '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}');
INSERT INTO public."TABLE_PARAMS" VALUES (21, 'view.schemaMode', 'COMPENSATION');
INSERT INTO public."TABLE_PARAMS" VALUES (21, 'transient_lastDdlTime', '1794811494');
INSERT INTO public."TABLE_PARAMS" VALUES (21, 'view.sqlConfig.spark.sql.session.timeZone', 'Etc/UTC');
INSERT INTO public."TABLE_PARAMS" VALUES (21, 'view.catalogAndNamespace.numParts', '2');
INSERT INTO public."TABLE_PARAMS" VALUES (21, 'view.sqlConfig.spark.sql.artifact.isolation.enabled', 'false');
INSERT INTO public."TABLE_PARAMS" VALUES (21, 'view.sqlConfig.spark.sql.ansi.enabled', 'true');
INSERT INTO public."TABLE_PARAMS" VALUES (21, 'view.catalogAndNamespace.part.1', 'default');
INSERT INTO public."TABLE_PARAMS" VALUES (21, 'view.referredTempFunctionsNames', '[]');
INSERT INTO public."TABLE_PARAMS" VALUES (21, 'view.query.out.col.0', 'id');
INSERT INTO public."TABLE_PARAMS" VALUES (21, 'view.catalogAndNamespace.part.0', 'spark_catalog');
INSERT INTO public."TABLE_PARAMS" VALUES (22, 'transient_lastDdlTime', '1794811494');
INSERT INTO public."TABLE_PARAMS" VALUES (22, 'spark.sql.create.version', '4.3.0');
INSERT INTO public."TABLE_PARAMS" VALUES (22, 'spark.sql.sources.schema', '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"name","type":"string","nullable":true,"metadata":{}}]}');
INSERT INTO public."TABLE_PARAMS" VALUES (22, 'EXTERNAL', 'TRUE');
INSERT INTO public."TABLE_PARAMS" VALUES (11, 'totalSize', '0');
INSERT INTO public."TABLE_PARAMS" VALUES (11, 'numFiles', '0');
INSERT INTO public."TABLE_PARAMS" VALUES (11, 'transactional', 'true');
INSERT INTO public."TABLE_PARAMS" VALUES (12, 'totalSize', '0');
INSERT INTO public."TABLE_PARAMS" VALUES (12, 'storage_handler', 'org.apache.hadoop.hive.hbase.HBaseStorageHandler');
INSERT INTO public."TABLE_PARAMS" VALUES (12, 'numFiles', '0');
INSERT INTO public."TABLE_PARAMS" VALUES (13, 'totalSize', '0');
INSERT INTO public."TABLE_PARAMS" VALUES (13, 'spark.sql.sources.provider', 'delta');
INSERT INTO public."TABLE_PARAMS" VALUES (13, 'numFiles', '0');
INSERT INTO public."TABLE_PARAMS" VALUES (14, 'totalSize', '0');
INSERT INTO public."TABLE_PARAMS" VALUES (14, 'numFiles', '0');
INSERT INTO public."TABLE_PARAMS" VALUES (14, 'metadata_location', 's3://lake/t/metadata/1.metadata.json');
INSERT INTO public."TABLE_PARAMS" VALUES (14, 'table_type', 'ICEBERG');
INSERT INTO public."TABLE_PARAMS" VALUES (16, 'totalSize', '0');
INSERT INTO public."TABLE_PARAMS" VALUES (16, 'numFiles', '0');
INSERT INTO public."TBLS" VALUES (1, 1794811481, 2, 0, 'root', 0, false, 1, 't_parquet', 'MANAGED_TABLE', NULL, NULL);
INSERT INTO public."TBLS" VALUES (2, 1794811481, 2, 0, 'root', 0, false, 2, 't_orc', 'MANAGED_TABLE', NULL, NULL);
INSERT INTO public."TBLS" VALUES (3, 1794811482, 2, 0, 'root', 0, false, 3, 't_textfile', 'MANAGED_TABLE', NULL, NULL);
INSERT INTO public."TBLS" VALUES (4, 1794811482, 2, 0, 'root', 0, false, 4, 't_avro', 'MANAGED_TABLE', NULL, NULL);
INSERT INTO public."TBLS" VALUES (5, 1794811483, 2, 0, 'root', 0, false, 5, 't_sequencefile', 'MANAGED_TABLE', NULL, NULL);
INSERT INTO public."TBLS" VALUES (6, 1794811483, 2, 0, 'root', 0, false, 6, 't_rcfile', 'MANAGED_TABLE', NULL, NULL);
INSERT INTO public."TBLS" VALUES (7, 1794811487, 2, 0, 'root', 0, false, 19, 'plain', 'MANAGED_TABLE', NULL, NULL);
INSERT INTO public."TBLS" VALUES (8, 1794811487, 2, 0, 'root', 0, false, 20, 'mixed', 'MANAGED_TABLE', NULL, NULL);
INSERT INTO public."TBLS" VALUES (9, 1794811488, 2, 0, 'root', 0, false, 24, 'headed', 'MANAGED_TABLE', NULL, NULL);
INSERT INTO public."TBLS" VALUES (10, 1794811490, 2, 0, 'root', 0, false, 27, 'bucketed', 'MANAGED_TABLE', NULL, NULL);
INSERT INTO public."TBLS" VALUES (11, 1794811490, 2, 0, 'root', 0, false, 28, 'acid', 'MANAGED_TABLE', NULL, NULL);
INSERT INTO public."TBLS" VALUES (12, 1794811490, 2, 0, 'root', 0, false, 29, 'handled', 'MANAGED_TABLE', NULL, NULL);
INSERT INTO public."TBLS" VALUES (13, 1794811491, 2, 0, 'root', 0, false, 30, 'lake_delta', 'MANAGED_TABLE', NULL, NULL);
INSERT INTO public."TBLS" VALUES (14, 1794811491, 2, 0, 'root', 0, false, 31, 'lake_iceberg', 'MANAGED_TABLE', NULL, NULL);
INSERT INTO public."TBLS" VALUES (15, 1794811491, 2, 0, 'root', 0, false, 32, 'archived', 'MANAGED_TABLE', NULL, NULL);
INSERT INTO public."TBLS" VALUES (16, 1794811492, 2, 0, 'root', 0, false, 35, 'skewed', 'MANAGED_TABLE', NULL, NULL);
INSERT INTO public."TBLS" VALUES (17, 1794811492, 2, 0, 'root', 0, false, 36, 'shared_a', 'EXTERNAL_TABLE', NULL, NULL);
INSERT INTO public."TBLS" VALUES (18, 1794811492, 2, 0, 'root', 0, false, 37, 'shared_b', 'EXTERNAL_TABLE', NULL, NULL);
INSERT INTO public."TBLS" VALUES (19, 1794811493, 2, 0, 'root', 0, false, 38, 'outer_one', 'EXTERNAL_TABLE', NULL, NULL);
INSERT INTO public."TBLS" VALUES (20, 1794811493, 2, 0, 'root', 0, false, 39, 'inner_one', 'EXTERNAL_TABLE', NULL, NULL);
INSERT INTO public."TBLS" VALUES (21, 1794811494, 2, 0, 'root', 0, false, 40, 'a_view', 'VIRTUAL_VIEW', 'select id from sales.plain', 'select id from sales.plain');
INSERT INTO public."TBLS" VALUES (22, 1794811494, 2, 0, 'root', 0, false, 41, 'owned_outside', 'EXTERNAL_TABLE', NULL, NULL);
INSERT INTO public."TBL_PRIVS" VALUES (1, 1794811481, 1, 'root', 'USER', 'root', 'USER', 'INSERT', 1);
INSERT INTO public."TBL_PRIVS" VALUES (2, 1794811481, 1, 'root', 'USER', 'root', 'USER', 'SELECT', 1);
INSERT INTO public."TBL_PRIVS" VALUES (3, 1794811481, 1, 'root', 'USER', 'root', 'USER', 'UPDATE', 1);
INSERT INTO public."TBL_PRIVS" VALUES (4, 1794811481, 1, 'root', 'USER', 'root', 'USER', 'DELETE', 1);
INSERT INTO public."TBL_PRIVS" VALUES (5, 1794811481, 1, 'root', 'USER', 'root', 'USER', 'INSERT', 2);
INSERT INTO public."TBL_PRIVS" VALUES (6, 1794811481, 1, 'root', 'USER', 'root', 'USER', 'SELECT', 2);
INSERT INTO public."TBL_PRIVS" VALUES (7, 1794811481, 1, 'root', 'USER', 'root', 'USER', 'UPDATE', 2);
INSERT INTO public."TBL_PRIVS" VALUES (8, 1794811481, 1, 'root', 'USER', 'root', 'USER', 'DELETE', 2);
INSERT INTO public."TBL_PRIVS" VALUES (9, 1794811482, 1, 'root', 'USER', 'root', 'USER', 'INSERT', 3);
INSERT INTO public."TBL_PRIVS" VALUES (10, 1794811482, 1, 'root', 'USER', 'root', 'USER', 'SELECT', 3);
INSERT INTO public."TBL_PRIVS" VALUES (11, 1794811482, 1, 'root', 'USER', 'root', 'USER', 'UPDATE', 3);
INSERT INTO public."TBL_PRIVS" VALUES (12, 1794811482, 1, 'root', 'USER', 'root', 'USER', 'DELETE', 3);
INSERT INTO public."TBL_PRIVS" VALUES (13, 1794811482, 1, 'root', 'USER', 'root', 'USER', 'INSERT', 4);
INSERT INTO public."TBL_PRIVS" VALUES (14, 1794811482, 1, 'root', 'USER', 'root', 'USER', 'SELECT', 4);
INSERT INTO public."TBL_PRIVS" VALUES (15, 1794811482, 1, 'root', 'USER', 'root', 'USER', 'UPDATE', 4);
INSERT INTO public."TBL_PRIVS" VALUES (16, 1794811482, 1, 'root', 'USER', 'root', 'USER', 'DELETE', 4);
INSERT INTO public."TBL_PRIVS" VALUES (17, 1794811483, 1, 'root', 'USER', 'root', 'USER', 'INSERT', 5);
INSERT INTO public."TBL_PRIVS" VALUES (18, 1794811483, 1, 'root', 'USER', 'root', 'USER', 'SELECT', 5);
INSERT INTO public."TBL_PRIVS" VALUES (19, 1794811483, 1, 'root', 'USER', 'root', 'USER', 'UPDATE', 5);
INSERT INTO public."TBL_PRIVS" VALUES (20, 1794811483, 1, 'root', 'USER', 'root', 'USER', 'DELETE', 5);
INSERT INTO public."TBL_PRIVS" VALUES (21, 1794811483, 1, 'root', 'USER', 'root', 'USER', 'INSERT', 6);
INSERT INTO public."TBL_PRIVS" VALUES (22, 1794811483, 1, 'root', 'USER', 'root', 'USER', 'SELECT', 6);
INSERT INTO public."TBL_PRIVS" VALUES (23, 1794811483, 1, 'root', 'USER', 'root', 'USER', 'UPDATE', 6);
INSERT INTO public."TBL_PRIVS" VALUES (24, 1794811483, 1, 'root', 'USER', 'root', 'USER', 'DELETE', 6);
INSERT INTO public."TBL_PRIVS" VALUES (25, 1794811487, 1, 'root', 'USER', 'root', 'USER', 'INSERT', 7);
INSERT INTO public."TBL_PRIVS" VALUES (26, 1794811487, 1, 'root', 'USER', 'root', 'USER', 'SELECT', 7);
INSERT INTO public."TBL_PRIVS" VALUES (27, 1794811487, 1, 'root', 'USER', 'root', 'USER', 'UPDATE', 7);
INSERT INTO public."TBL_PRIVS" VALUES (28, 1794811487, 1, 'root', 'USER', 'root', 'USER', 'DELETE', 7);
INSERT INTO public."TBL_PRIVS" VALUES (29, 1794811487, 1, 'root', 'USER', 'root', 'USER', 'INSERT', 8);
INSERT INTO public."TBL_PRIVS" VALUES (30, 1794811487, 1, 'root', 'USER', 'root', 'USER', 'SELECT', 8);
INSERT INTO public."TBL_PRIVS" VALUES (31, 1794811487, 1, 'root', 'USER', 'root', 'USER', 'UPDATE', 8);
INSERT INTO public."TBL_PRIVS" VALUES (32, 1794811487, 1, 'root', 'USER', 'root', 'USER', 'DELETE', 8);
INSERT INTO public."TBL_PRIVS" VALUES (33, 1794811488, 1, 'root', 'USER', 'root', 'USER', 'INSERT', 9);
INSERT INTO public."TBL_PRIVS" VALUES (34, 1794811488, 1, 'root', 'USER', 'root', 'USER', 'SELECT', 9);
INSERT INTO public."TBL_PRIVS" VALUES (35, 1794811488, 1, 'root', 'USER', 'root', 'USER', 'UPDATE', 9);
INSERT INTO public."TBL_PRIVS" VALUES (36, 1794811488, 1, 'root', 'USER', 'root', 'USER', 'DELETE', 9);
INSERT INTO public."TBL_PRIVS" VALUES (37, 1794811490, 1, 'root', 'USER', 'root', 'USER', 'INSERT', 10);
INSERT INTO public."TBL_PRIVS" VALUES (38, 1794811490, 1, 'root', 'USER', 'root', 'USER', 'SELECT', 10);
INSERT INTO public."TBL_PRIVS" VALUES (39, 1794811490, 1, 'root', 'USER', 'root', 'USER', 'UPDATE', 10);
INSERT INTO public."TBL_PRIVS" VALUES (40, 1794811490, 1, 'root', 'USER', 'root', 'USER', 'DELETE', 10);
INSERT INTO public."TBL_PRIVS" VALUES (41, 1794811490, 1, 'root', 'USER', 'root', 'USER', 'INSERT', 11);
INSERT INTO public."TBL_PRIVS" VALUES (42, 1794811490, 1, 'root', 'USER', 'root', 'USER', 'SELECT', 11);
INSERT INTO public."TBL_PRIVS" VALUES (43, 1794811490, 1, 'root', 'USER', 'root', 'USER', 'UPDATE', 11);
INSERT INTO public."TBL_PRIVS" VALUES (44, 1794811490, 1, 'root', 'USER', 'root', 'USER', 'DELETE', 11);
INSERT INTO public."TBL_PRIVS" VALUES (45, 1794811490, 1, 'root', 'USER', 'root', 'USER', 'INSERT', 12);
INSERT INTO public."TBL_PRIVS" VALUES (46, 1794811490, 1, 'root', 'USER', 'root', 'USER', 'SELECT', 12);
INSERT INTO public."TBL_PRIVS" VALUES (47, 1794811490, 1, 'root', 'USER', 'root', 'USER', 'UPDATE', 12);
INSERT INTO public."TBL_PRIVS" VALUES (48, 1794811490, 1, 'root', 'USER', 'root', 'USER', 'DELETE', 12);
INSERT INTO public."TBL_PRIVS" VALUES (49, 1794811491, 1, 'root', 'USER', 'root', 'USER', 'INSERT', 13);
INSERT INTO public."TBL_PRIVS" VALUES (50, 1794811491, 1, 'root', 'USER', 'root', 'USER', 'SELECT', 13);
INSERT INTO public."TBL_PRIVS" VALUES (51, 1794811491, 1, 'root', 'USER', 'root', 'USER', 'UPDATE', 13);
INSERT INTO public."TBL_PRIVS" VALUES (52, 1794811491, 1, 'root', 'USER', 'root', 'USER', 'DELETE', 13);
INSERT INTO public."TBL_PRIVS" VALUES (53, 1794811491, 1, 'root', 'USER', 'root', 'USER', 'INSERT', 14);
INSERT INTO public."TBL_PRIVS" VALUES (54, 1794811491, 1, 'root', 'USER', 'root', 'USER', 'SELECT', 14);
INSERT INTO public."TBL_PRIVS" VALUES (55, 1794811491, 1, 'root', 'USER', 'root', 'USER', 'UPDATE', 14);
INSERT INTO public."TBL_PRIVS" VALUES (56, 1794811491, 1, 'root', 'USER', 'root', 'USER', 'DELETE', 14);
INSERT INTO public."TBL_PRIVS" VALUES (57, 1794811491, 1, 'root', 'USER', 'root', 'USER', 'INSERT', 15);
INSERT INTO public."TBL_PRIVS" VALUES (58, 1794811491, 1, 'root', 'USER', 'root', 'USER', 'SELECT', 15);
INSERT INTO public."TBL_PRIVS" VALUES (59, 1794811491, 1, 'root', 'USER', 'root', 'USER', 'UPDATE', 15);
INSERT INTO public."TBL_PRIVS" VALUES (60, 1794811491, 1, 'root', 'USER', 'root', 'USER', 'DELETE', 15);
INSERT INTO public."TBL_PRIVS" VALUES (61, 1794811492, 1, 'root', 'USER', 'root', 'USER', 'INSERT', 16);
INSERT INTO public."TBL_PRIVS" VALUES (62, 1794811492, 1, 'root', 'USER', 'root', 'USER', 'SELECT', 16);
INSERT INTO public."TBL_PRIVS" VALUES (63, 1794811492, 1, 'root', 'USER', 'root', 'USER', 'UPDATE', 16);
INSERT INTO public."TBL_PRIVS" VALUES (64, 1794811492, 1, 'root', 'USER', 'root', 'USER', 'DELETE', 16);
INSERT INTO public."TBL_PRIVS" VALUES (65, 1794811492, 1, 'root', 'USER', 'root', 'USER', 'INSERT', 17);
INSERT INTO public."TBL_PRIVS" VALUES (66, 1794811492, 1, 'root', 'USER', 'root', 'USER', 'SELECT', 17);
INSERT INTO public."TBL_PRIVS" VALUES (67, 1794811492, 1, 'root', 'USER', 'root', 'USER', 'UPDATE', 17);
INSERT INTO public."TBL_PRIVS" VALUES (68, 1794811492, 1, 'root', 'USER', 'root', 'USER', 'DELETE', 17);
INSERT INTO public."TBL_PRIVS" VALUES (69, 1794811492, 1, 'root', 'USER', 'root', 'USER', 'INSERT', 18);
INSERT INTO public."TBL_PRIVS" VALUES (70, 1794811492, 1, 'root', 'USER', 'root', 'USER', 'SELECT', 18);
INSERT INTO public."TBL_PRIVS" VALUES (71, 1794811492, 1, 'root', 'USER', 'root', 'USER', 'UPDATE', 18);
INSERT INTO public."TBL_PRIVS" VALUES (72, 1794811492, 1, 'root', 'USER', 'root', 'USER', 'DELETE', 18);
INSERT INTO public."TBL_PRIVS" VALUES (73, 1794811493, 1, 'root', 'USER', 'root', 'USER', 'INSERT', 19);
INSERT INTO public."TBL_PRIVS" VALUES (74, 1794811493, 1, 'root', 'USER', 'root', 'USER', 'SELECT', 19);
INSERT INTO public."TBL_PRIVS" VALUES (75, 1794811493, 1, 'root', 'USER', 'root', 'USER', 'UPDATE', 19);
INSERT INTO public."TBL_PRIVS" VALUES (76, 1794811493, 1, 'root', 'USER', 'root', 'USER', 'DELETE', 19);
INSERT INTO public."TBL_PRIVS" VALUES (77, 1794811493, 1, 'root', 'USER', 'root', 'USER', 'INSERT', 20);
INSERT INTO public."TBL_PRIVS" VALUES (78, 1794811493, 1, 'root', 'USER', 'root', 'USER', 'SELECT', 20);
INSERT INTO public."TBL_PRIVS" VALUES (79, 1794811493, 1, 'root', 'USER', 'root', 'USER', 'UPDATE', 20);
INSERT INTO public."TBL_PRIVS" VALUES (80, 1794811493, 1, 'root', 'USER', 'root', 'USER', 'DELETE', 20);
INSERT INTO public."TBL_PRIVS" VALUES (81, 1794811494, 1, 'root', 'USER', 'root', 'USER', 'INSERT', 21);
INSERT INTO public."TBL_PRIVS" VALUES (82, 1794811494, 1, 'root', 'USER', 'root', 'USER', 'SELECT', 21);
INSERT INTO public."TBL_PRIVS" VALUES (83, 1794811494, 1, 'root', 'USER', 'root', 'USER', 'UPDATE', 21);
INSERT INTO public."TBL_PRIVS" VALUES (84, 1794811494, 1, 'root', 'USER', 'root', 'USER', 'DELETE', 21);
INSERT INTO public."TBL_PRIVS" VALUES (85, 1794811494, 1, 'root', 'USER', 'root', 'USER', 'INSERT', 22);
INSERT INTO public."TBL_PRIVS" VALUES (86, 1794811494, 1, 'root', 'USER', 'root', 'USER', 'SELECT', 22);
INSERT INTO public."TBL_PRIVS" VALUES (87, 1794811494, 1, 'root', 'USER', 'root', 'USER', 'UPDATE', 22);
INSERT INTO public."TBL_PRIVS" VALUES (88, 1794811494, 1, 'root', 'USER', 'root', 'USER', 'DELETE', 22);
ALTER TABLE ONLY public."BUCKETING_COLS"
    ADD CONSTRAINT "BUCKETING_COLS_PK" PRIMARY KEY ("SD_ID", "INTEGER_IDX");
ALTER TABLE ONLY public."CDS"
    ADD CONSTRAINT "CDS_PK" PRIMARY KEY ("CD_ID");
ALTER TABLE ONLY public."COLUMNS_V2"
    ADD CONSTRAINT "COLUMNS_PK" PRIMARY KEY ("CD_ID", "COLUMN_NAME");
ALTER TABLE ONLY public."DATABASE_PARAMS"
    ADD CONSTRAINT "DATABASE_PARAMS_PK" PRIMARY KEY ("DB_ID", "PARAM_KEY");
ALTER TABLE ONLY public."DBS"
    ADD CONSTRAINT "DBS_PK" PRIMARY KEY ("DB_ID");
ALTER TABLE ONLY public."DB_PRIVS"
    ADD CONSTRAINT "DB_PRIVS_PK" PRIMARY KEY ("DB_GRANT_ID");
ALTER TABLE ONLY public."DELEGATION_TOKENS"
    ADD CONSTRAINT "DELEGATION_TOKENS_PK" PRIMARY KEY ("TOKEN_IDENT");
ALTER TABLE ONLY public."FUNCS"
    ADD CONSTRAINT "FUNCS_PK" PRIMARY KEY ("FUNC_ID");
ALTER TABLE ONLY public."FUNC_RU"
    ADD CONSTRAINT "FUNC_RU_PK" PRIMARY KEY ("FUNC_ID", "INTEGER_IDX");
ALTER TABLE ONLY public."GLOBAL_PRIVS"
    ADD CONSTRAINT "GLOBAL_PRIVS_PK" PRIMARY KEY ("USER_GRANT_ID");
ALTER TABLE ONLY public."IDXS"
    ADD CONSTRAINT "IDXS_PK" PRIMARY KEY ("INDEX_ID");
ALTER TABLE ONLY public."INDEX_PARAMS"
    ADD CONSTRAINT "INDEX_PARAMS_PK" PRIMARY KEY ("INDEX_ID", "PARAM_KEY");
ALTER TABLE ONLY public."KEY_CONSTRAINTS"
    ADD CONSTRAINT "KEY_CONSTRAINTS_PK" PRIMARY KEY ("CONSTRAINT_NAME", "POSITION");
ALTER TABLE ONLY public."MASTER_KEYS"
    ADD CONSTRAINT "MASTER_KEYS_PK" PRIMARY KEY ("KEY_ID");
ALTER TABLE ONLY public."NOTIFICATION_LOG"
    ADD CONSTRAINT "NOTIFICATION_LOG_PK" PRIMARY KEY ("NL_ID");
ALTER TABLE ONLY public."NOTIFICATION_SEQUENCE"
    ADD CONSTRAINT "NOTIFICATION_SEQUENCE_PK" PRIMARY KEY ("NNI_ID");
ALTER TABLE ONLY public."PARTITIONS"
    ADD CONSTRAINT "PARTITIONS_PK" PRIMARY KEY ("PART_ID");
ALTER TABLE ONLY public."PARTITION_EVENTS"
    ADD CONSTRAINT "PARTITION_EVENTS_PK" PRIMARY KEY ("PART_NAME_ID");
ALTER TABLE ONLY public."PARTITION_KEYS"
    ADD CONSTRAINT "PARTITION_KEY_PK" PRIMARY KEY ("TBL_ID", "PKEY_NAME");
ALTER TABLE ONLY public."PARTITION_KEY_VALS"
    ADD CONSTRAINT "PARTITION_KEY_VALS_PK" PRIMARY KEY ("PART_ID", "INTEGER_IDX");
ALTER TABLE ONLY public."PARTITION_PARAMS"
    ADD CONSTRAINT "PARTITION_PARAMS_PK" PRIMARY KEY ("PART_ID", "PARAM_KEY");
ALTER TABLE ONLY public."PART_COL_PRIVS"
    ADD CONSTRAINT "PART_COL_PRIVS_PK" PRIMARY KEY ("PART_COLUMN_GRANT_ID");
ALTER TABLE ONLY public."PART_COL_STATS"
    ADD CONSTRAINT "PART_COL_STATS_PK" PRIMARY KEY ("CS_ID");
ALTER TABLE ONLY public."PART_PRIVS"
    ADD CONSTRAINT "PART_PRIVS_PK" PRIMARY KEY ("PART_GRANT_ID");
ALTER TABLE ONLY public."ROLES"
    ADD CONSTRAINT "ROLES_PK" PRIMARY KEY ("ROLE_ID");
ALTER TABLE ONLY public."ROLE_MAP"
    ADD CONSTRAINT "ROLE_MAP_PK" PRIMARY KEY ("ROLE_GRANT_ID");
ALTER TABLE ONLY public."SDS"
    ADD CONSTRAINT "SDS_PK" PRIMARY KEY ("SD_ID");
ALTER TABLE ONLY public."SD_PARAMS"
    ADD CONSTRAINT "SD_PARAMS_PK" PRIMARY KEY ("SD_ID", "PARAM_KEY");
ALTER TABLE ONLY public."SEQUENCE_TABLE"
    ADD CONSTRAINT "SEQUENCE_TABLE_PK" PRIMARY KEY ("SEQUENCE_NAME");
ALTER TABLE ONLY public."SERDES"
    ADD CONSTRAINT "SERDES_PK" PRIMARY KEY ("SERDE_ID");
ALTER TABLE ONLY public."SERDE_PARAMS"
    ADD CONSTRAINT "SERDE_PARAMS_PK" PRIMARY KEY ("SERDE_ID", "PARAM_KEY");
ALTER TABLE ONLY public."SKEWED_COL_NAMES"
    ADD CONSTRAINT "SKEWED_COL_NAMES_PK" PRIMARY KEY ("SD_ID", "INTEGER_IDX");
ALTER TABLE ONLY public."SKEWED_COL_VALUE_LOC_MAP"
    ADD CONSTRAINT "SKEWED_COL_VALUE_LOC_MAP_PK" PRIMARY KEY ("SD_ID", "STRING_LIST_ID_KID");
ALTER TABLE ONLY public."SKEWED_STRING_LIST"
    ADD CONSTRAINT "SKEWED_STRING_LIST_PK" PRIMARY KEY ("STRING_LIST_ID");
ALTER TABLE ONLY public."SKEWED_STRING_LIST_VALUES"
    ADD CONSTRAINT "SKEWED_STRING_LIST_VALUES_PK" PRIMARY KEY ("STRING_LIST_ID", "INTEGER_IDX");
ALTER TABLE ONLY public."SKEWED_VALUES"
    ADD CONSTRAINT "SKEWED_VALUES_PK" PRIMARY KEY ("SD_ID_OID", "INTEGER_IDX");
ALTER TABLE ONLY public."SORT_COLS"
    ADD CONSTRAINT "SORT_COLS_PK" PRIMARY KEY ("SD_ID", "INTEGER_IDX");
ALTER TABLE ONLY public."TABLE_PARAMS"
    ADD CONSTRAINT "TABLE_PARAMS_PK" PRIMARY KEY ("TBL_ID", "PARAM_KEY");
ALTER TABLE ONLY public."TAB_COL_STATS"
    ADD CONSTRAINT "TAB_COL_STATS_PK" PRIMARY KEY ("CS_ID");
ALTER TABLE ONLY public."TBLS"
    ADD CONSTRAINT "TBLS_PK" PRIMARY KEY ("TBL_ID");
ALTER TABLE ONLY public."TBL_COL_PRIVS"
    ADD CONSTRAINT "TBL_COL_PRIVS_PK" PRIMARY KEY ("TBL_COLUMN_GRANT_ID");
ALTER TABLE ONLY public."TBL_PRIVS"
    ADD CONSTRAINT "TBL_PRIVS_PK" PRIMARY KEY ("TBL_GRANT_ID");
ALTER TABLE ONLY public."TYPES"
    ADD CONSTRAINT "TYPES_PK" PRIMARY KEY ("TYPES_ID");
ALTER TABLE ONLY public."TYPE_FIELDS"
    ADD CONSTRAINT "TYPE_FIELDS_PK" PRIMARY KEY ("TYPE_NAME", "FIELD_NAME");
ALTER TABLE ONLY public."VERSION"
    ADD CONSTRAINT "VERSION_PK" PRIMARY KEY ("VER_ID");
CREATE INDEX "BUCKETING_COLS_N49" ON public."BUCKETING_COLS" USING btree ("SD_ID");
CREATE INDEX "COLUMNS_V2_N49" ON public."COLUMNS_V2" USING btree ("CD_ID");
CREATE INDEX "DATABASE_PARAMS_N49" ON public."DATABASE_PARAMS" USING btree ("DB_ID");
CREATE UNIQUE INDEX "DBPRIVILEGEINDEX" ON public."DB_PRIVS" USING btree ("DB_ID", "PRINCIPAL_NAME", "PRINCIPAL_TYPE", "DB_PRIV", "GRANTOR", "GRANTOR_TYPE");
CREATE INDEX "DB_PRIVS_N49" ON public."DB_PRIVS" USING btree ("DB_ID");
CREATE INDEX "FUNCS_N49" ON public."FUNCS" USING btree ("DB_ID");
CREATE INDEX "FUNC_RU_N49" ON public."FUNC_RU" USING btree ("FUNC_ID");
CREATE UNIQUE INDEX "GLOBALPRIVILEGEINDEX" ON public."GLOBAL_PRIVS" USING btree ("PRINCIPAL_NAME", "PRINCIPAL_TYPE", "USER_PRIV", "GRANTOR", "GRANTOR_TYPE");
CREATE INDEX "IDXS_N49" ON public."IDXS" USING btree ("INDEX_TBL_ID");
CREATE INDEX "IDXS_N50" ON public."IDXS" USING btree ("SD_ID");
CREATE INDEX "IDXS_N51" ON public."IDXS" USING btree ("ORIG_TBL_ID");
CREATE INDEX "INDEX_PARAMS_N49" ON public."INDEX_PARAMS" USING btree ("INDEX_ID");
CREATE INDEX "KEY_CONSTRAINTS_N49" ON public."KEY_CONSTRAINTS" USING btree ("CHILD_CD_ID");
CREATE INDEX "KEY_CONSTRAINTS_N50" ON public."KEY_CONSTRAINTS" USING btree ("CHILD_TBL_ID");
CREATE INDEX "KEY_CONSTRAINTS_N51" ON public."KEY_CONSTRAINTS" USING btree ("PARENT_CD_ID");
CREATE INDEX "KEY_CONSTRAINTS_N52" ON public."KEY_CONSTRAINTS" USING btree ("PARENT_TBL_ID");
CREATE INDEX "PARTITIONCOLUMNPRIVILEGEINDEX" ON public."PART_COL_PRIVS" USING btree ("PART_ID", "COLUMN_NAME", "PRINCIPAL_NAME", "PRINCIPAL_TYPE", "PART_COL_PRIV", "GRANTOR", "GRANTOR_TYPE");
CREATE INDEX "PARTITIONEVENTINDEX" ON public."PARTITION_EVENTS" USING btree ("PARTITION_NAME");
CREATE INDEX "PARTITIONS_N49" ON public."PARTITIONS" USING btree ("TBL_ID");
CREATE INDEX "PARTITIONS_N50" ON public."PARTITIONS" USING btree ("SD_ID");
CREATE INDEX "PARTITION_KEYS_N49" ON public."PARTITION_KEYS" USING btree ("TBL_ID");
CREATE INDEX "PARTITION_KEY_VALS_N49" ON public."PARTITION_KEY_VALS" USING btree ("PART_ID");
CREATE INDEX "PARTITION_PARAMS_N49" ON public."PARTITION_PARAMS" USING btree ("PART_ID");
CREATE INDEX "PARTPRIVILEGEINDEX" ON public."PART_PRIVS" USING btree ("PART_ID", "PRINCIPAL_NAME", "PRINCIPAL_TYPE", "PART_PRIV", "GRANTOR", "GRANTOR_TYPE");
CREATE INDEX "PART_COL_PRIVS_N49" ON public."PART_COL_PRIVS" USING btree ("PART_ID");
CREATE INDEX "PART_COL_STATS_N49" ON public."PART_COL_STATS" USING btree ("PART_ID");
CREATE INDEX "PART_PRIVS_N49" ON public."PART_PRIVS" USING btree ("PART_ID");
CREATE UNIQUE INDEX "ROLEENTITYINDEX" ON public."ROLES" USING btree ("ROLE_NAME");
CREATE INDEX "ROLE_MAP_N49" ON public."ROLE_MAP" USING btree ("ROLE_ID");
CREATE INDEX "SDS_N49" ON public."SDS" USING btree ("CD_ID");
CREATE INDEX "SDS_N50" ON public."SDS" USING btree ("SERDE_ID");
CREATE INDEX "SD_PARAMS_N49" ON public."SD_PARAMS" USING btree ("SD_ID");
CREATE INDEX "SERDE_PARAMS_N49" ON public."SERDE_PARAMS" USING btree ("SERDE_ID");
CREATE INDEX "SKEWED_COL_NAMES_N49" ON public."SKEWED_COL_NAMES" USING btree ("SD_ID");
CREATE INDEX "SKEWED_COL_VALUE_LOC_MAP_N49" ON public."SKEWED_COL_VALUE_LOC_MAP" USING btree ("SD_ID");
CREATE INDEX "SKEWED_COL_VALUE_LOC_MAP_N50" ON public."SKEWED_COL_VALUE_LOC_MAP" USING btree ("STRING_LIST_ID_KID");
CREATE INDEX "SKEWED_STRING_LIST_VALUES_N49" ON public."SKEWED_STRING_LIST_VALUES" USING btree ("STRING_LIST_ID");
CREATE INDEX "SKEWED_VALUES_N49" ON public."SKEWED_VALUES" USING btree ("STRING_LIST_ID_EID");
CREATE INDEX "SKEWED_VALUES_N50" ON public."SKEWED_VALUES" USING btree ("SD_ID_OID");
CREATE INDEX "SORT_COLS_N49" ON public."SORT_COLS" USING btree ("SD_ID");
CREATE INDEX "TABLECOLUMNPRIVILEGEINDEX" ON public."TBL_COL_PRIVS" USING btree ("TBL_ID", "COLUMN_NAME", "PRINCIPAL_NAME", "PRINCIPAL_TYPE", "TBL_COL_PRIV", "GRANTOR", "GRANTOR_TYPE");
CREATE INDEX "TABLEPRIVILEGEINDEX" ON public."TBL_PRIVS" USING btree ("TBL_ID", "PRINCIPAL_NAME", "PRINCIPAL_TYPE", "TBL_PRIV", "GRANTOR", "GRANTOR_TYPE");
CREATE INDEX "TABLE_PARAMS_N49" ON public."TABLE_PARAMS" USING btree ("TBL_ID");
CREATE INDEX "TAB_COL_STATS_N49" ON public."TAB_COL_STATS" USING btree ("TBL_ID");
CREATE INDEX "TBLS_N49" ON public."TBLS" USING btree ("SD_ID");
CREATE INDEX "TBLS_N50" ON public."TBLS" USING btree ("DB_ID");
CREATE INDEX "TBL_COL_PRIVS_N49" ON public."TBL_COL_PRIVS" USING btree ("TBL_ID");
CREATE INDEX "TBL_PRIVS_N49" ON public."TBL_PRIVS" USING btree ("TBL_ID");
CREATE INDEX "TYPE_FIELDS_N49" ON public."TYPE_FIELDS" USING btree ("TYPE_NAME");
CREATE UNIQUE INDEX "UNIQUEFUNCTION" ON public."FUNCS" USING btree ("FUNC_NAME", "DB_ID");
CREATE UNIQUE INDEX "UNIQUEINDEX" ON public."IDXS" USING btree ("INDEX_NAME", "ORIG_TBL_ID");
CREATE UNIQUE INDEX "UNIQUEPARTITION" ON public."PARTITIONS" USING btree ("PART_NAME", "TBL_ID");
CREATE UNIQUE INDEX "UNIQUETABLE" ON public."TBLS" USING btree ("TBL_NAME", "DB_ID");
CREATE UNIQUE INDEX "UNIQUE_DATABASE" ON public."DBS" USING btree ("NAME");
CREATE UNIQUE INDEX "UNIQUE_TYPE" ON public."TYPES" USING btree ("TYPE_NAME");
CREATE UNIQUE INDEX "USERROLEMAPINDEX" ON public."ROLE_MAP" USING btree ("PRINCIPAL_NAME", "ROLE_ID", "GRANTOR", "GRANTOR_TYPE");
ALTER TABLE ONLY public."BUCKETING_COLS"
    ADD CONSTRAINT "BUCKETING_COLS_FK1" FOREIGN KEY ("SD_ID") REFERENCES public."SDS"("SD_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."COLUMNS_V2"
    ADD CONSTRAINT "COLUMNS_V2_FK1" FOREIGN KEY ("CD_ID") REFERENCES public."CDS"("CD_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."DATABASE_PARAMS"
    ADD CONSTRAINT "DATABASE_PARAMS_FK1" FOREIGN KEY ("DB_ID") REFERENCES public."DBS"("DB_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."DB_PRIVS"
    ADD CONSTRAINT "DB_PRIVS_FK1" FOREIGN KEY ("DB_ID") REFERENCES public."DBS"("DB_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."FUNCS"
    ADD CONSTRAINT "FUNCS_FK1" FOREIGN KEY ("DB_ID") REFERENCES public."DBS"("DB_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."FUNC_RU"
    ADD CONSTRAINT "FUNC_RU_FK1" FOREIGN KEY ("FUNC_ID") REFERENCES public."FUNCS"("FUNC_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."IDXS"
    ADD CONSTRAINT "IDXS_FK1" FOREIGN KEY ("INDEX_TBL_ID") REFERENCES public."TBLS"("TBL_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."IDXS"
    ADD CONSTRAINT "IDXS_FK2" FOREIGN KEY ("ORIG_TBL_ID") REFERENCES public."TBLS"("TBL_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."IDXS"
    ADD CONSTRAINT "IDXS_FK3" FOREIGN KEY ("SD_ID") REFERENCES public."SDS"("SD_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."INDEX_PARAMS"
    ADD CONSTRAINT "INDEX_PARAMS_FK1" FOREIGN KEY ("INDEX_ID") REFERENCES public."IDXS"("INDEX_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."KEY_CONSTRAINTS"
    ADD CONSTRAINT "KEY_CONSTRAINTS_FK1" FOREIGN KEY ("CHILD_CD_ID") REFERENCES public."CDS"("CD_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."KEY_CONSTRAINTS"
    ADD CONSTRAINT "KEY_CONSTRAINTS_FK2" FOREIGN KEY ("CHILD_TBL_ID") REFERENCES public."TBLS"("TBL_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."KEY_CONSTRAINTS"
    ADD CONSTRAINT "KEY_CONSTRAINTS_FK3" FOREIGN KEY ("PARENT_CD_ID") REFERENCES public."CDS"("CD_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."KEY_CONSTRAINTS"
    ADD CONSTRAINT "KEY_CONSTRAINTS_FK4" FOREIGN KEY ("PARENT_TBL_ID") REFERENCES public."TBLS"("TBL_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."PARTITIONS"
    ADD CONSTRAINT "PARTITIONS_FK1" FOREIGN KEY ("SD_ID") REFERENCES public."SDS"("SD_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."PARTITIONS"
    ADD CONSTRAINT "PARTITIONS_FK2" FOREIGN KEY ("TBL_ID") REFERENCES public."TBLS"("TBL_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."PARTITION_KEYS"
    ADD CONSTRAINT "PARTITION_KEYS_FK1" FOREIGN KEY ("TBL_ID") REFERENCES public."TBLS"("TBL_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."PARTITION_KEY_VALS"
    ADD CONSTRAINT "PARTITION_KEY_VALS_FK1" FOREIGN KEY ("PART_ID") REFERENCES public."PARTITIONS"("PART_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."PARTITION_PARAMS"
    ADD CONSTRAINT "PARTITION_PARAMS_FK1" FOREIGN KEY ("PART_ID") REFERENCES public."PARTITIONS"("PART_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."PART_COL_PRIVS"
    ADD CONSTRAINT "PART_COL_PRIVS_FK1" FOREIGN KEY ("PART_ID") REFERENCES public."PARTITIONS"("PART_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."PART_COL_STATS"
    ADD CONSTRAINT "PART_COL_STATS_FK1" FOREIGN KEY ("PART_ID") REFERENCES public."PARTITIONS"("PART_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."PART_PRIVS"
    ADD CONSTRAINT "PART_PRIVS_FK1" FOREIGN KEY ("PART_ID") REFERENCES public."PARTITIONS"("PART_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."ROLE_MAP"
    ADD CONSTRAINT "ROLE_MAP_FK1" FOREIGN KEY ("ROLE_ID") REFERENCES public."ROLES"("ROLE_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."SDS"
    ADD CONSTRAINT "SDS_FK1" FOREIGN KEY ("CD_ID") REFERENCES public."CDS"("CD_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."SDS"
    ADD CONSTRAINT "SDS_FK2" FOREIGN KEY ("SERDE_ID") REFERENCES public."SERDES"("SERDE_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."SD_PARAMS"
    ADD CONSTRAINT "SD_PARAMS_FK1" FOREIGN KEY ("SD_ID") REFERENCES public."SDS"("SD_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."SERDE_PARAMS"
    ADD CONSTRAINT "SERDE_PARAMS_FK1" FOREIGN KEY ("SERDE_ID") REFERENCES public."SERDES"("SERDE_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."SKEWED_COL_NAMES"
    ADD CONSTRAINT "SKEWED_COL_NAMES_FK1" FOREIGN KEY ("SD_ID") REFERENCES public."SDS"("SD_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."SKEWED_COL_VALUE_LOC_MAP"
    ADD CONSTRAINT "SKEWED_COL_VALUE_LOC_MAP_FK1" FOREIGN KEY ("SD_ID") REFERENCES public."SDS"("SD_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."SKEWED_COL_VALUE_LOC_MAP"
    ADD CONSTRAINT "SKEWED_COL_VALUE_LOC_MAP_FK2" FOREIGN KEY ("STRING_LIST_ID_KID") REFERENCES public."SKEWED_STRING_LIST"("STRING_LIST_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."SKEWED_STRING_LIST_VALUES"
    ADD CONSTRAINT "SKEWED_STRING_LIST_VALUES_FK1" FOREIGN KEY ("STRING_LIST_ID") REFERENCES public."SKEWED_STRING_LIST"("STRING_LIST_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."SKEWED_VALUES"
    ADD CONSTRAINT "SKEWED_VALUES_FK1" FOREIGN KEY ("SD_ID_OID") REFERENCES public."SDS"("SD_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."SKEWED_VALUES"
    ADD CONSTRAINT "SKEWED_VALUES_FK2" FOREIGN KEY ("STRING_LIST_ID_EID") REFERENCES public."SKEWED_STRING_LIST"("STRING_LIST_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."SORT_COLS"
    ADD CONSTRAINT "SORT_COLS_FK1" FOREIGN KEY ("SD_ID") REFERENCES public."SDS"("SD_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."TABLE_PARAMS"
    ADD CONSTRAINT "TABLE_PARAMS_FK1" FOREIGN KEY ("TBL_ID") REFERENCES public."TBLS"("TBL_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."TAB_COL_STATS"
    ADD CONSTRAINT "TAB_COL_STATS_FK1" FOREIGN KEY ("TBL_ID") REFERENCES public."TBLS"("TBL_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."TBLS"
    ADD CONSTRAINT "TBLS_FK1" FOREIGN KEY ("DB_ID") REFERENCES public."DBS"("DB_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."TBLS"
    ADD CONSTRAINT "TBLS_FK2" FOREIGN KEY ("SD_ID") REFERENCES public."SDS"("SD_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."TBL_COL_PRIVS"
    ADD CONSTRAINT "TBL_COL_PRIVS_FK1" FOREIGN KEY ("TBL_ID") REFERENCES public."TBLS"("TBL_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."TBL_PRIVS"
    ADD CONSTRAINT "TBL_PRIVS_FK1" FOREIGN KEY ("TBL_ID") REFERENCES public."TBLS"("TBL_ID") DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public."TYPE_FIELDS"
    ADD CONSTRAINT "TYPE_FIELDS_FK1" FOREIGN KEY ("TYPE_NAME") REFERENCES public."TYPES"("TYPES_ID") DEFERRABLE INITIALLY DEFERRED;
