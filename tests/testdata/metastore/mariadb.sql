CREATE TABLE `BUCKETING_COLS` (
  `SD_ID` bigint(20) NOT NULL,
  `BUCKET_COL_NAME` varchar(255) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `INTEGER_IDX` int(11) NOT NULL,
  PRIMARY KEY (`SD_ID`,`INTEGER_IDX`),
  KEY `BUCKETING_COLS_N49` (`SD_ID`),
  CONSTRAINT `BUCKETING_COLS_FK1` FOREIGN KEY (`SD_ID`) REFERENCES `SDS` (`SD_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
INSERT INTO `BUCKETING_COLS` VALUES (27,'id',0);
INSERT INTO `BUCKETING_COLS` VALUES (28,'id',0);
CREATE TABLE `CDS` (
  `CD_ID` bigint(20) NOT NULL,
  PRIMARY KEY (`CD_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
INSERT INTO `CDS` VALUES (1);
INSERT INTO `CDS` VALUES (2);
INSERT INTO `CDS` VALUES (3);
INSERT INTO `CDS` VALUES (4);
INSERT INTO `CDS` VALUES (5);
INSERT INTO `CDS` VALUES (6);
INSERT INTO `CDS` VALUES (7);
INSERT INTO `CDS` VALUES (8);
INSERT INTO `CDS` VALUES (9);
INSERT INTO `CDS` VALUES (10);
INSERT INTO `CDS` VALUES (11);
INSERT INTO `CDS` VALUES (12);
INSERT INTO `CDS` VALUES (13);
INSERT INTO `CDS` VALUES (14);
INSERT INTO `CDS` VALUES (15);
INSERT INTO `CDS` VALUES (16);
INSERT INTO `CDS` VALUES (17);
INSERT INTO `CDS` VALUES (18);
INSERT INTO `CDS` VALUES (19);
INSERT INTO `CDS` VALUES (20);
INSERT INTO `CDS` VALUES (21);
INSERT INTO `CDS` VALUES (22);
CREATE TABLE `COLUMNS_V2` (
  `CD_ID` bigint(20) NOT NULL,
  `COMMENT` varchar(256) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `COLUMN_NAME` varchar(767) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `TYPE_NAME` varchar(32672) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `INTEGER_IDX` int(11) NOT NULL,
  PRIMARY KEY (`CD_ID`,`COLUMN_NAME`),
  KEY `COLUMNS_V2_N49` (`CD_ID`),
  CONSTRAINT `COLUMNS_V2_FK1` FOREIGN KEY (`CD_ID`) REFERENCES `CDS` (`CD_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
INSERT INTO `COLUMNS_V2` VALUES (1,NULL,'id','bigint',0);
INSERT INTO `COLUMNS_V2` VALUES (1,NULL,'name','string',1);
INSERT INTO `COLUMNS_V2` VALUES (2,NULL,'id','bigint',0);
INSERT INTO `COLUMNS_V2` VALUES (2,NULL,'name','string',1);
INSERT INTO `COLUMNS_V2` VALUES (3,NULL,'id','bigint',0);
INSERT INTO `COLUMNS_V2` VALUES (3,NULL,'name','string',1);
INSERT INTO `COLUMNS_V2` VALUES (4,NULL,'id','bigint',0);
INSERT INTO `COLUMNS_V2` VALUES (4,NULL,'name','string',1);
INSERT INTO `COLUMNS_V2` VALUES (5,NULL,'id','bigint',0);
INSERT INTO `COLUMNS_V2` VALUES (5,NULL,'name','string',1);
INSERT INTO `COLUMNS_V2` VALUES (6,NULL,'id','bigint',0);
INSERT INTO `COLUMNS_V2` VALUES (6,NULL,'name','string',1);
INSERT INTO `COLUMNS_V2` VALUES (7,NULL,'id','bigint',0);
INSERT INTO `COLUMNS_V2` VALUES (7,NULL,'name','string',1);
INSERT INTO `COLUMNS_V2` VALUES (8,NULL,'id','bigint',0);
INSERT INTO `COLUMNS_V2` VALUES (8,NULL,'name','string',1);
INSERT INTO `COLUMNS_V2` VALUES (9,NULL,'id','bigint',0);
INSERT INTO `COLUMNS_V2` VALUES (9,NULL,'name','string',1);
INSERT INTO `COLUMNS_V2` VALUES (10,NULL,'id','bigint',0);
INSERT INTO `COLUMNS_V2` VALUES (10,NULL,'name','string',1);
INSERT INTO `COLUMNS_V2` VALUES (11,NULL,'id','bigint',0);
INSERT INTO `COLUMNS_V2` VALUES (11,NULL,'name','string',1);
INSERT INTO `COLUMNS_V2` VALUES (12,NULL,'id','bigint',0);
INSERT INTO `COLUMNS_V2` VALUES (12,NULL,'name','string',1);
INSERT INTO `COLUMNS_V2` VALUES (13,NULL,'id','bigint',0);
INSERT INTO `COLUMNS_V2` VALUES (13,NULL,'name','string',1);
INSERT INTO `COLUMNS_V2` VALUES (14,NULL,'id','bigint',0);
INSERT INTO `COLUMNS_V2` VALUES (14,NULL,'name','string',1);
INSERT INTO `COLUMNS_V2` VALUES (15,NULL,'id','bigint',0);
INSERT INTO `COLUMNS_V2` VALUES (15,NULL,'name','string',1);
INSERT INTO `COLUMNS_V2` VALUES (16,NULL,'id','bigint',0);
INSERT INTO `COLUMNS_V2` VALUES (16,NULL,'name','string',1);
INSERT INTO `COLUMNS_V2` VALUES (17,NULL,'id','bigint',0);
INSERT INTO `COLUMNS_V2` VALUES (17,NULL,'name','string',1);
INSERT INTO `COLUMNS_V2` VALUES (18,NULL,'id','bigint',0);
INSERT INTO `COLUMNS_V2` VALUES (18,NULL,'name','string',1);
INSERT INTO `COLUMNS_V2` VALUES (19,NULL,'id','bigint',0);
INSERT INTO `COLUMNS_V2` VALUES (19,NULL,'name','string',1);
INSERT INTO `COLUMNS_V2` VALUES (20,NULL,'id','bigint',0);
INSERT INTO `COLUMNS_V2` VALUES (20,NULL,'name','string',1);
INSERT INTO `COLUMNS_V2` VALUES (21,NULL,'id','bigint',0);
INSERT INTO `COLUMNS_V2` VALUES (22,NULL,'id','bigint',0);
INSERT INTO `COLUMNS_V2` VALUES (22,NULL,'name','string',1);
CREATE TABLE `DATABASE_PARAMS` (
  `DB_ID` bigint(20) NOT NULL,
  `PARAM_KEY` varchar(180) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `PARAM_VALUE` varchar(4000) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  PRIMARY KEY (`DB_ID`,`PARAM_KEY`),
  KEY `DATABASE_PARAMS_N49` (`DB_ID`),
  CONSTRAINT `DATABASE_PARAMS_FK1` FOREIGN KEY (`DB_ID`) REFERENCES `DBS` (`DB_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `DBS` (
  `DB_ID` bigint(20) NOT NULL,
  `DESC` varchar(4000) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `DB_LOCATION_URI` varchar(4000) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `NAME` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `OWNER_NAME` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `OWNER_TYPE` varchar(10) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  PRIMARY KEY (`DB_ID`),
  UNIQUE KEY `UNIQUE_DATABASE` (`NAME`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
INSERT INTO `DBS` VALUES (1,'Default Hive database','file:@WAREHOUSE@','default','public','ROLE');
INSERT INTO `DBS` VALUES (2,'what tests look at','file:@WAREHOUSE@/sales.db','sales','root','USER');
CREATE TABLE `DB_PRIVS` (
  `DB_GRANT_ID` bigint(20) NOT NULL,
  `CREATE_TIME` int(11) NOT NULL,
  `DB_ID` bigint(20) DEFAULT NULL,
  `GRANT_OPTION` smallint(6) NOT NULL CHECK (`GRANT_OPTION` in (0,1)),
  `GRANTOR` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `GRANTOR_TYPE` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `PRINCIPAL_NAME` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `PRINCIPAL_TYPE` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `DB_PRIV` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  PRIMARY KEY (`DB_GRANT_ID`),
  UNIQUE KEY `DBPRIVILEGEINDEX` (`DB_ID`,`PRINCIPAL_NAME`,`PRINCIPAL_TYPE`,`DB_PRIV`,`GRANTOR`,`GRANTOR_TYPE`),
  KEY `DB_PRIVS_N49` (`DB_ID`),
  CONSTRAINT `DB_PRIVS_FK1` FOREIGN KEY (`DB_ID`) REFERENCES `DBS` (`DB_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `DELEGATION_TOKENS` (
  `TOKEN_IDENT` varchar(767) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `TOKEN` varchar(767) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  PRIMARY KEY (`TOKEN_IDENT`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `FUNCS` (
  `FUNC_ID` bigint(20) NOT NULL,
  `CLASS_NAME` varchar(4000) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `CREATE_TIME` int(11) NOT NULL,
  `DB_ID` bigint(20) DEFAULT NULL,
  `FUNC_NAME` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `FUNC_TYPE` int(11) NOT NULL,
  `OWNER_NAME` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `OWNER_TYPE` varchar(10) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  PRIMARY KEY (`FUNC_ID`),
  UNIQUE KEY `UNIQUEFUNCTION` (`FUNC_NAME`,`DB_ID`),
  KEY `FUNCS_N49` (`DB_ID`),
  CONSTRAINT `FUNCS_FK1` FOREIGN KEY (`DB_ID`) REFERENCES `DBS` (`DB_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `FUNC_RU` (
  `FUNC_ID` bigint(20) NOT NULL,
  `RESOURCE_TYPE` int(11) NOT NULL,
  `RESOURCE_URI` varchar(4000) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `INTEGER_IDX` int(11) NOT NULL,
  PRIMARY KEY (`FUNC_ID`,`INTEGER_IDX`),
  KEY `FUNC_RU_N49` (`FUNC_ID`),
  CONSTRAINT `FUNC_RU_FK1` FOREIGN KEY (`FUNC_ID`) REFERENCES `FUNCS` (`FUNC_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `GLOBAL_PRIVS` (
  `USER_GRANT_ID` bigint(20) NOT NULL,
  `CREATE_TIME` int(11) NOT NULL,
  `GRANT_OPTION` smallint(6) NOT NULL CHECK (`GRANT_OPTION` in (0,1)),
  `GRANTOR` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `GRANTOR_TYPE` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `PRINCIPAL_NAME` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `PRINCIPAL_TYPE` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `USER_PRIV` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  PRIMARY KEY (`USER_GRANT_ID`),
  UNIQUE KEY `GLOBALPRIVILEGEINDEX` (`PRINCIPAL_NAME`,`PRINCIPAL_TYPE`,`USER_PRIV`,`GRANTOR`,`GRANTOR_TYPE`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
INSERT INTO `GLOBAL_PRIVS` VALUES (1,1794811419,1,'admin','ROLE','admin','ROLE','All');
CREATE TABLE `IDXS` (
  `INDEX_ID` bigint(20) NOT NULL,
  `CREATE_TIME` int(11) NOT NULL,
  `DEFERRED_REBUILD` bit(1) NOT NULL,
  `INDEX_HANDLER_CLASS` varchar(4000) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `INDEX_NAME` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `INDEX_TBL_ID` bigint(20) DEFAULT NULL,
  `LAST_ACCESS_TIME` int(11) NOT NULL,
  `ORIG_TBL_ID` bigint(20) DEFAULT NULL,
  `SD_ID` bigint(20) DEFAULT NULL,
  PRIMARY KEY (`INDEX_ID`),
  UNIQUE KEY `UNIQUEINDEX` (`INDEX_NAME`,`ORIG_TBL_ID`),
  KEY `IDXS_N51` (`SD_ID`),
  KEY `IDXS_N50` (`ORIG_TBL_ID`),
  KEY `IDXS_N49` (`INDEX_TBL_ID`),
  CONSTRAINT `IDXS_FK1` FOREIGN KEY (`INDEX_TBL_ID`) REFERENCES `TBLS` (`TBL_ID`),
  CONSTRAINT `IDXS_FK2` FOREIGN KEY (`ORIG_TBL_ID`) REFERENCES `TBLS` (`TBL_ID`),
  CONSTRAINT `IDXS_FK3` FOREIGN KEY (`SD_ID`) REFERENCES `SDS` (`SD_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `INDEX_PARAMS` (
  `INDEX_ID` bigint(20) NOT NULL,
  `PARAM_KEY` varchar(256) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `PARAM_VALUE` varchar(4000) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  PRIMARY KEY (`INDEX_ID`,`PARAM_KEY`),
  KEY `INDEX_PARAMS_N49` (`INDEX_ID`),
  CONSTRAINT `INDEX_PARAMS_FK1` FOREIGN KEY (`INDEX_ID`) REFERENCES `IDXS` (`INDEX_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `KEY_CONSTRAINTS` (
  `CONSTRAINT_NAME` varchar(255) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `POSITION` int(11) NOT NULL,
  `CHILD_CD_ID` bigint(20) DEFAULT NULL,
  `CHILD_INTEGER_IDX` int(11) DEFAULT NULL,
  `CHILD_TBL_ID` bigint(20) DEFAULT NULL,
  `CONSTRAINT_TYPE` int(11) NOT NULL,
  `DELETE_RULE` int(11) DEFAULT NULL,
  `ENABLE_VALIDATE_RELY` int(11) NOT NULL,
  `PARENT_CD_ID` bigint(20) DEFAULT NULL,
  `PARENT_INTEGER_IDX` int(11) DEFAULT NULL,
  `PARENT_TBL_ID` bigint(20) DEFAULT NULL,
  `UPDATE_RULE` int(11) DEFAULT NULL,
  PRIMARY KEY (`CONSTRAINT_NAME`,`POSITION`),
  KEY `KEY_CONSTRAINTS_N50` (`PARENT_CD_ID`),
  KEY `KEY_CONSTRAINTS_N51` (`CHILD_CD_ID`),
  KEY `KEY_CONSTRAINTS_N52` (`PARENT_TBL_ID`),
  KEY `KEY_CONSTRAINTS_N49` (`CHILD_TBL_ID`),
  CONSTRAINT `KEY_CONSTRAINTS_FK1` FOREIGN KEY (`CHILD_CD_ID`) REFERENCES `CDS` (`CD_ID`),
  CONSTRAINT `KEY_CONSTRAINTS_FK2` FOREIGN KEY (`CHILD_TBL_ID`) REFERENCES `TBLS` (`TBL_ID`),
  CONSTRAINT `KEY_CONSTRAINTS_FK3` FOREIGN KEY (`PARENT_CD_ID`) REFERENCES `CDS` (`CD_ID`),
  CONSTRAINT `KEY_CONSTRAINTS_FK4` FOREIGN KEY (`PARENT_TBL_ID`) REFERENCES `TBLS` (`TBL_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `MASTER_KEYS` (
  `KEY_ID` int(11) NOT NULL,
  `MASTER_KEY` varchar(767) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  PRIMARY KEY (`KEY_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `NOTIFICATION_LOG` (
  `NL_ID` bigint(20) NOT NULL,
  `DB_NAME` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `EVENT_ID` bigint(20) NOT NULL,
  `EVENT_TIME` int(11) NOT NULL,
  `EVENT_TYPE` varchar(32) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `MESSAGE` text DEFAULT NULL,
  `MESSAGE_FORMAT` varchar(16) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `TBL_NAME` varchar(256) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  PRIMARY KEY (`NL_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `NOTIFICATION_SEQUENCE` (
  `NNI_ID` bigint(20) NOT NULL,
  `NEXT_EVENT_ID` bigint(20) NOT NULL,
  PRIMARY KEY (`NNI_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `PARTITIONS` (
  `PART_ID` bigint(20) NOT NULL,
  `CREATE_TIME` int(11) NOT NULL,
  `LAST_ACCESS_TIME` int(11) NOT NULL,
  `PART_NAME` varchar(767) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `SD_ID` bigint(20) DEFAULT NULL,
  `TBL_ID` bigint(20) DEFAULT NULL,
  PRIMARY KEY (`PART_ID`),
  UNIQUE KEY `UNIQUEPARTITION` (`PART_NAME`,`TBL_ID`),
  KEY `PARTITIONS_N50` (`TBL_ID`),
  KEY `PARTITIONS_N49` (`SD_ID`),
  CONSTRAINT `PARTITIONS_FK1` FOREIGN KEY (`SD_ID`) REFERENCES `SDS` (`SD_ID`),
  CONSTRAINT `PARTITIONS_FK2` FOREIGN KEY (`TBL_ID`) REFERENCES `TBLS` (`TBL_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
INSERT INTO `PARTITIONS` VALUES (1,1794811424,0,'dt=2026-01-01',7,1);
INSERT INTO `PARTITIONS` VALUES (2,1794811425,0,'dt=2026-01-02',8,1);
INSERT INTO `PARTITIONS` VALUES (3,1794811425,0,'dt=2026-01-01',9,2);
INSERT INTO `PARTITIONS` VALUES (4,1794811426,0,'dt=2026-01-02',10,2);
INSERT INTO `PARTITIONS` VALUES (5,1794811426,0,'dt=2026-01-01',11,3);
INSERT INTO `PARTITIONS` VALUES (6,1794811426,0,'dt=2026-01-02',12,3);
INSERT INTO `PARTITIONS` VALUES (7,1794811426,0,'dt=2026-01-01',13,4);
INSERT INTO `PARTITIONS` VALUES (8,1794811427,0,'dt=2026-01-02',14,4);
INSERT INTO `PARTITIONS` VALUES (9,1794811427,0,'dt=2026-01-01',15,5);
INSERT INTO `PARTITIONS` VALUES (10,1794811427,0,'dt=2026-01-02',16,5);
INSERT INTO `PARTITIONS` VALUES (11,1794811428,0,'dt=2026-01-01',17,6);
INSERT INTO `PARTITIONS` VALUES (12,1794811428,0,'dt=2026-01-02',18,6);
INSERT INTO `PARTITIONS` VALUES (13,1794811429,0,'dt=text',21,8);
INSERT INTO `PARTITIONS` VALUES (14,1794811429,0,'dt=parquet',22,8);
INSERT INTO `PARTITIONS` VALUES (15,1794811430,0,'dt=orc',23,8);
INSERT INTO `PARTITIONS` VALUES (16,1794811430,0,'dt=a b%3Ac/hour=3',25,9);
INSERT INTO `PARTITIONS` VALUES (17,1794811430,0,'dt=2026-01-01/hour=4',26,9);
INSERT INTO `PARTITIONS` VALUES (18,1794811432,0,'dt=1',33,15);
INSERT INTO `PARTITIONS` VALUES (19,1794811432,0,'dt=2',34,15);
CREATE TABLE `PARTITION_EVENTS` (
  `PART_NAME_ID` bigint(20) NOT NULL,
  `DB_NAME` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `EVENT_TIME` bigint(20) NOT NULL,
  `EVENT_TYPE` int(11) NOT NULL,
  `PARTITION_NAME` varchar(767) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `TBL_NAME` varchar(256) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  PRIMARY KEY (`PART_NAME_ID`),
  KEY `PARTITIONEVENTINDEX` (`PARTITION_NAME`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `PARTITION_KEYS` (
  `TBL_ID` bigint(20) NOT NULL,
  `PKEY_COMMENT` varchar(4000) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `PKEY_NAME` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `PKEY_TYPE` varchar(767) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `INTEGER_IDX` int(11) NOT NULL,
  PRIMARY KEY (`TBL_ID`,`PKEY_NAME`),
  KEY `PARTITION_KEYS_N49` (`TBL_ID`),
  CONSTRAINT `PARTITION_KEYS_FK1` FOREIGN KEY (`TBL_ID`) REFERENCES `TBLS` (`TBL_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
INSERT INTO `PARTITION_KEYS` VALUES (1,NULL,'dt','string',0);
INSERT INTO `PARTITION_KEYS` VALUES (2,NULL,'dt','string',0);
INSERT INTO `PARTITION_KEYS` VALUES (3,NULL,'dt','string',0);
INSERT INTO `PARTITION_KEYS` VALUES (4,NULL,'dt','string',0);
INSERT INTO `PARTITION_KEYS` VALUES (5,NULL,'dt','string',0);
INSERT INTO `PARTITION_KEYS` VALUES (6,NULL,'dt','string',0);
INSERT INTO `PARTITION_KEYS` VALUES (8,NULL,'dt','string',0);
INSERT INTO `PARTITION_KEYS` VALUES (9,NULL,'dt','string',0);
INSERT INTO `PARTITION_KEYS` VALUES (9,NULL,'hour','int',1);
INSERT INTO `PARTITION_KEYS` VALUES (15,NULL,'dt','string',0);
INSERT INTO `PARTITION_KEYS` VALUES (19,NULL,'dt','string',0);
CREATE TABLE `PARTITION_KEY_VALS` (
  `PART_ID` bigint(20) NOT NULL,
  `PART_KEY_VAL` varchar(255) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `INTEGER_IDX` int(11) NOT NULL,
  PRIMARY KEY (`PART_ID`,`INTEGER_IDX`),
  KEY `PARTITION_KEY_VALS_N49` (`PART_ID`),
  CONSTRAINT `PARTITION_KEY_VALS_FK1` FOREIGN KEY (`PART_ID`) REFERENCES `PARTITIONS` (`PART_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
INSERT INTO `PARTITION_KEY_VALS` VALUES (1,'2026-01-01',0);
INSERT INTO `PARTITION_KEY_VALS` VALUES (2,'2026-01-02',0);
INSERT INTO `PARTITION_KEY_VALS` VALUES (3,'2026-01-01',0);
INSERT INTO `PARTITION_KEY_VALS` VALUES (4,'2026-01-02',0);
INSERT INTO `PARTITION_KEY_VALS` VALUES (5,'2026-01-01',0);
INSERT INTO `PARTITION_KEY_VALS` VALUES (6,'2026-01-02',0);
INSERT INTO `PARTITION_KEY_VALS` VALUES (7,'2026-01-01',0);
INSERT INTO `PARTITION_KEY_VALS` VALUES (8,'2026-01-02',0);
INSERT INTO `PARTITION_KEY_VALS` VALUES (9,'2026-01-01',0);
INSERT INTO `PARTITION_KEY_VALS` VALUES (10,'2026-01-02',0);
INSERT INTO `PARTITION_KEY_VALS` VALUES (11,'2026-01-01',0);
INSERT INTO `PARTITION_KEY_VALS` VALUES (12,'2026-01-02',0);
INSERT INTO `PARTITION_KEY_VALS` VALUES (13,'text',0);
INSERT INTO `PARTITION_KEY_VALS` VALUES (14,'parquet',0);
INSERT INTO `PARTITION_KEY_VALS` VALUES (15,'orc',0);
INSERT INTO `PARTITION_KEY_VALS` VALUES (16,'a b:c',0);
INSERT INTO `PARTITION_KEY_VALS` VALUES (16,'3',1);
INSERT INTO `PARTITION_KEY_VALS` VALUES (17,'2026-01-01',0);
INSERT INTO `PARTITION_KEY_VALS` VALUES (17,'4',1);
INSERT INTO `PARTITION_KEY_VALS` VALUES (18,'1',0);
INSERT INTO `PARTITION_KEY_VALS` VALUES (19,'2',0);
CREATE TABLE `PARTITION_PARAMS` (
  `PART_ID` bigint(20) NOT NULL,
  `PARAM_KEY` varchar(256) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `PARAM_VALUE` varchar(4000) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  PRIMARY KEY (`PART_ID`,`PARAM_KEY`),
  KEY `PARTITION_PARAMS_N49` (`PART_ID`),
  CONSTRAINT `PARTITION_PARAMS_FK1` FOREIGN KEY (`PART_ID`) REFERENCES `PARTITIONS` (`PART_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
INSERT INTO `PARTITION_PARAMS` VALUES (1,'transient_lastDdlTime','1794811424');
INSERT INTO `PARTITION_PARAMS` VALUES (2,'transient_lastDdlTime','1794811425');
INSERT INTO `PARTITION_PARAMS` VALUES (3,'transient_lastDdlTime','1794811425');
INSERT INTO `PARTITION_PARAMS` VALUES (4,'transient_lastDdlTime','1794811426');
INSERT INTO `PARTITION_PARAMS` VALUES (5,'transient_lastDdlTime','1794811426');
INSERT INTO `PARTITION_PARAMS` VALUES (6,'transient_lastDdlTime','1794811426');
INSERT INTO `PARTITION_PARAMS` VALUES (7,'transient_lastDdlTime','1794811426');
INSERT INTO `PARTITION_PARAMS` VALUES (8,'transient_lastDdlTime','1794811427');
INSERT INTO `PARTITION_PARAMS` VALUES (9,'transient_lastDdlTime','1794811427');
INSERT INTO `PARTITION_PARAMS` VALUES (10,'transient_lastDdlTime','1794811427');
INSERT INTO `PARTITION_PARAMS` VALUES (11,'transient_lastDdlTime','1794811428');
INSERT INTO `PARTITION_PARAMS` VALUES (12,'transient_lastDdlTime','1794811428');
INSERT INTO `PARTITION_PARAMS` VALUES (13,'transient_lastDdlTime','1794811429');
INSERT INTO `PARTITION_PARAMS` VALUES (14,'numFiles','0');
INSERT INTO `PARTITION_PARAMS` VALUES (14,'totalSize','0');
INSERT INTO `PARTITION_PARAMS` VALUES (14,'transient_lastDdlTime','1794811429');
INSERT INTO `PARTITION_PARAMS` VALUES (15,'numFiles','0');
INSERT INTO `PARTITION_PARAMS` VALUES (15,'totalSize','0');
INSERT INTO `PARTITION_PARAMS` VALUES (15,'transient_lastDdlTime','1794811430');
INSERT INTO `PARTITION_PARAMS` VALUES (16,'transient_lastDdlTime','1794811430');
INSERT INTO `PARTITION_PARAMS` VALUES (17,'transient_lastDdlTime','1794811430');
INSERT INTO `PARTITION_PARAMS` VALUES (18,'transient_lastDdlTime','1794811432');
INSERT INTO `PARTITION_PARAMS` VALUES (19,'is_archived','true');
INSERT INTO `PARTITION_PARAMS` VALUES (19,'numFiles','0');
INSERT INTO `PARTITION_PARAMS` VALUES (19,'totalSize','0');
INSERT INTO `PARTITION_PARAMS` VALUES (19,'transient_lastDdlTime','1794811432');
CREATE TABLE `PART_COL_PRIVS` (
  `PART_COLUMN_GRANT_ID` bigint(20) NOT NULL,
  `COLUMN_NAME` varchar(767) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `CREATE_TIME` int(11) NOT NULL,
  `GRANT_OPTION` smallint(6) NOT NULL CHECK (`GRANT_OPTION` in (0,1)),
  `GRANTOR` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `GRANTOR_TYPE` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `PART_ID` bigint(20) DEFAULT NULL,
  `PRINCIPAL_NAME` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `PRINCIPAL_TYPE` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `PART_COL_PRIV` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  PRIMARY KEY (`PART_COLUMN_GRANT_ID`),
  KEY `PARTITIONCOLUMNPRIVILEGEINDEX` (`PART_ID`,`COLUMN_NAME`,`PRINCIPAL_NAME`,`PRINCIPAL_TYPE`,`PART_COL_PRIV`,`GRANTOR`,`GRANTOR_TYPE`),
  KEY `PART_COL_PRIVS_N49` (`PART_ID`),
  CONSTRAINT `PART_COL_PRIVS_FK1` FOREIGN KEY (`PART_ID`) REFERENCES `PARTITIONS` (`PART_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `PART_COL_STATS` (
  `CS_ID` bigint(20) NOT NULL,
  `AVG_COL_LEN` double DEFAULT NULL,
  `COLUMN_NAME` varchar(767) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `COLUMN_TYPE` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `DB_NAME` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `BIG_DECIMAL_HIGH_VALUE` varchar(255) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `BIG_DECIMAL_LOW_VALUE` varchar(255) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `DOUBLE_HIGH_VALUE` double DEFAULT NULL,
  `DOUBLE_LOW_VALUE` double DEFAULT NULL,
  `LAST_ANALYZED` bigint(20) NOT NULL,
  `LONG_HIGH_VALUE` bigint(20) DEFAULT NULL,
  `LONG_LOW_VALUE` bigint(20) DEFAULT NULL,
  `MAX_COL_LEN` bigint(20) DEFAULT NULL,
  `NUM_DISTINCTS` bigint(20) DEFAULT NULL,
  `NUM_FALSES` bigint(20) DEFAULT NULL,
  `NUM_NULLS` bigint(20) NOT NULL,
  `NUM_TRUES` bigint(20) DEFAULT NULL,
  `PART_ID` bigint(20) DEFAULT NULL,
  `PARTITION_NAME` varchar(767) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `TABLE_NAME` varchar(256) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  PRIMARY KEY (`CS_ID`),
  KEY `PART_COL_STATS_N49` (`PART_ID`),
  CONSTRAINT `PART_COL_STATS_FK1` FOREIGN KEY (`PART_ID`) REFERENCES `PARTITIONS` (`PART_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `PART_PRIVS` (
  `PART_GRANT_ID` bigint(20) NOT NULL,
  `CREATE_TIME` int(11) NOT NULL,
  `GRANT_OPTION` smallint(6) NOT NULL CHECK (`GRANT_OPTION` in (0,1)),
  `GRANTOR` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `GRANTOR_TYPE` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `PART_ID` bigint(20) DEFAULT NULL,
  `PRINCIPAL_NAME` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `PRINCIPAL_TYPE` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `PART_PRIV` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  PRIMARY KEY (`PART_GRANT_ID`),
  KEY `PART_PRIVS_N49` (`PART_ID`),
  KEY `PARTPRIVILEGEINDEX` (`PART_ID`,`PRINCIPAL_NAME`,`PRINCIPAL_TYPE`,`PART_PRIV`,`GRANTOR`,`GRANTOR_TYPE`),
  CONSTRAINT `PART_PRIVS_FK1` FOREIGN KEY (`PART_ID`) REFERENCES `PARTITIONS` (`PART_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `ROLES` (
  `ROLE_ID` bigint(20) NOT NULL,
  `CREATE_TIME` int(11) NOT NULL,
  `OWNER_NAME` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `ROLE_NAME` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  PRIMARY KEY (`ROLE_ID`),
  UNIQUE KEY `ROLEENTITYINDEX` (`ROLE_NAME`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
INSERT INTO `ROLES` VALUES (1,1794811419,'admin','admin');
INSERT INTO `ROLES` VALUES (2,1794811419,'public','public');
CREATE TABLE `ROLE_MAP` (
  `ROLE_GRANT_ID` bigint(20) NOT NULL,
  `ADD_TIME` int(11) NOT NULL,
  `GRANT_OPTION` smallint(6) NOT NULL CHECK (`GRANT_OPTION` in (0,1)),
  `GRANTOR` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `GRANTOR_TYPE` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `PRINCIPAL_NAME` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `PRINCIPAL_TYPE` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `ROLE_ID` bigint(20) DEFAULT NULL,
  PRIMARY KEY (`ROLE_GRANT_ID`),
  UNIQUE KEY `USERROLEMAPINDEX` (`PRINCIPAL_NAME`,`ROLE_ID`,`GRANTOR`,`GRANTOR_TYPE`),
  KEY `ROLE_MAP_N49` (`ROLE_ID`),
  CONSTRAINT `ROLE_MAP_FK1` FOREIGN KEY (`ROLE_ID`) REFERENCES `ROLES` (`ROLE_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `SDS` (
  `SD_ID` bigint(20) NOT NULL,
  `CD_ID` bigint(20) DEFAULT NULL,
  `INPUT_FORMAT` varchar(4000) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `IS_COMPRESSED` bit(1) NOT NULL,
  `IS_STOREDASSUBDIRECTORIES` bit(1) NOT NULL,
  `LOCATION` varchar(4000) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `NUM_BUCKETS` int(11) NOT NULL,
  `OUTPUT_FORMAT` varchar(4000) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `SERDE_ID` bigint(20) DEFAULT NULL,
  PRIMARY KEY (`SD_ID`),
  KEY `SDS_N50` (`CD_ID`),
  KEY `SDS_N49` (`SERDE_ID`),
  CONSTRAINT `SDS_FK1` FOREIGN KEY (`CD_ID`) REFERENCES `CDS` (`CD_ID`),
  CONSTRAINT `SDS_FK2` FOREIGN KEY (`SERDE_ID`) REFERENCES `SERDES` (`SERDE_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
INSERT INTO `SDS` VALUES (1,1,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/t_parquet',-1,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat',1);
INSERT INTO `SDS` VALUES (2,2,'org.apache.hadoop.hive.ql.io.orc.OrcInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/t_orc',-1,'org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat',2);
INSERT INTO `SDS` VALUES (3,3,'org.apache.hadoop.mapred.TextInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/t_textfile',-1,'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat',3);
INSERT INTO `SDS` VALUES (4,4,'org.apache.hadoop.hive.ql.io.avro.AvroContainerInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/t_avro',-1,'org.apache.hadoop.hive.ql.io.avro.AvroContainerOutputFormat',4);
INSERT INTO `SDS` VALUES (5,5,'org.apache.hadoop.mapred.SequenceFileInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/t_sequencefile',-1,'org.apache.hadoop.mapred.SequenceFileOutputFormat',5);
INSERT INTO `SDS` VALUES (6,6,'org.apache.hadoop.hive.ql.io.RCFileInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/t_rcfile',-1,'org.apache.hadoop.hive.ql.io.RCFileOutputFormat',6);
INSERT INTO `SDS` VALUES (7,1,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/t_parquet/dt=2026-01-01',-1,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat',7);
INSERT INTO `SDS` VALUES (8,1,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/t_parquet/dt=2026-01-02',-1,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat',8);
INSERT INTO `SDS` VALUES (9,2,'org.apache.hadoop.hive.ql.io.orc.OrcInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/t_orc/dt=2026-01-01',-1,'org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat',9);
INSERT INTO `SDS` VALUES (10,2,'org.apache.hadoop.hive.ql.io.orc.OrcInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/t_orc/dt=2026-01-02',-1,'org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat',10);
INSERT INTO `SDS` VALUES (11,3,'org.apache.hadoop.mapred.TextInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/t_textfile/dt=2026-01-01',-1,'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat',11);
INSERT INTO `SDS` VALUES (12,3,'org.apache.hadoop.mapred.TextInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/t_textfile/dt=2026-01-02',-1,'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat',12);
INSERT INTO `SDS` VALUES (13,4,'org.apache.hadoop.hive.ql.io.avro.AvroContainerInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/t_avro/dt=2026-01-01',-1,'org.apache.hadoop.hive.ql.io.avro.AvroContainerOutputFormat',13);
INSERT INTO `SDS` VALUES (14,4,'org.apache.hadoop.hive.ql.io.avro.AvroContainerInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/t_avro/dt=2026-01-02',-1,'org.apache.hadoop.hive.ql.io.avro.AvroContainerOutputFormat',14);
INSERT INTO `SDS` VALUES (15,5,'org.apache.hadoop.mapred.SequenceFileInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/t_sequencefile/dt=2026-01-01',-1,'org.apache.hadoop.mapred.SequenceFileOutputFormat',15);
INSERT INTO `SDS` VALUES (16,5,'org.apache.hadoop.mapred.SequenceFileInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/t_sequencefile/dt=2026-01-02',-1,'org.apache.hadoop.mapred.SequenceFileOutputFormat',16);
INSERT INTO `SDS` VALUES (17,6,'org.apache.hadoop.hive.ql.io.RCFileInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/t_rcfile/dt=2026-01-01',-1,'org.apache.hadoop.hive.ql.io.RCFileOutputFormat',17);
INSERT INTO `SDS` VALUES (18,6,'org.apache.hadoop.hive.ql.io.RCFileInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/t_rcfile/dt=2026-01-02',-1,'org.apache.hadoop.hive.ql.io.RCFileOutputFormat',18);
INSERT INTO `SDS` VALUES (19,7,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/plain',-1,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat',19);
INSERT INTO `SDS` VALUES (20,8,'org.apache.hadoop.mapred.TextInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/mixed',-1,'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat',20);
INSERT INTO `SDS` VALUES (21,8,'org.apache.hadoop.mapred.TextInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/mixed/dt=text',-1,'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat',21);
INSERT INTO `SDS` VALUES (22,8,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/mixed/dt=parquet',-1,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat',22);
INSERT INTO `SDS` VALUES (23,8,'org.apache.hadoop.hive.ql.io.orc.OrcInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/mixed/dt=orc',-1,'org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat',23);
INSERT INTO `SDS` VALUES (24,9,'org.apache.hadoop.mapred.TextInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/headed',-1,'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat',24);
INSERT INTO `SDS` VALUES (25,9,'org.apache.hadoop.mapred.TextInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/headed/dt=a b%3Ac/hour=3',-1,'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat',25);
INSERT INTO `SDS` VALUES (26,9,'org.apache.hadoop.mapred.TextInputFormat','\0','\0','file:@ELSEWHERE@/hour4',-1,'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat',26);
INSERT INTO `SDS` VALUES (27,10,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/bucketed',4,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat',27);
INSERT INTO `SDS` VALUES (28,11,'org.apache.hadoop.hive.ql.io.orc.OrcInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/acid',2,'org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat',28);
INSERT INTO `SDS` VALUES (29,12,'org.apache.hadoop.mapred.TextInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/handled',-1,'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat',29);
INSERT INTO `SDS` VALUES (30,13,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/lake_delta',-1,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat',30);
INSERT INTO `SDS` VALUES (31,14,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/lake_iceberg',-1,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat',31);
INSERT INTO `SDS` VALUES (32,15,'org.apache.hadoop.mapred.TextInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/archived',-1,'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat',32);
INSERT INTO `SDS` VALUES (33,15,'org.apache.hadoop.mapred.TextInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/archived/dt=1',-1,'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat',33);
INSERT INTO `SDS` VALUES (34,15,'org.apache.hadoop.mapred.TextInputFormat','\0','\0','file:@WAREHOUSE@/sales.db/archived/dt=2',-1,'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat',34);
INSERT INTO `SDS` VALUES (35,16,'org.apache.hadoop.mapred.TextInputFormat','\0','','file:@WAREHOUSE@/sales.db/skewed',-1,'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat',35);
INSERT INTO `SDS` VALUES (36,17,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat','\0','\0','file:@ELSEWHERE@/shared',-1,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat',36);
INSERT INTO `SDS` VALUES (37,18,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat','\0','\0','file:@ELSEWHERE@/shared',-1,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat',37);
INSERT INTO `SDS` VALUES (38,19,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat','\0','\0','file:@ELSEWHERE@/outer',-1,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat',38);
INSERT INTO `SDS` VALUES (39,20,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat','\0','\0','file:@ELSEWHERE@/outer/dt=9',-1,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat',39);
INSERT INTO `SDS` VALUES (40,21,'org.apache.hadoop.mapred.SequenceFileInputFormat','\0','\0',NULL,-1,'org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat',40);
INSERT INTO `SDS` VALUES (41,22,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat','\0','\0','file:@ELSEWHERE@/external',-1,'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat',41);
CREATE TABLE `SD_PARAMS` (
  `SD_ID` bigint(20) NOT NULL,
  `PARAM_KEY` varchar(256) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `PARAM_VALUE` varchar(32672) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  PRIMARY KEY (`SD_ID`,`PARAM_KEY`),
  KEY `SD_PARAMS_N49` (`SD_ID`),
  CONSTRAINT `SD_PARAMS_FK1` FOREIGN KEY (`SD_ID`) REFERENCES `SDS` (`SD_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `SEQUENCE_TABLE` (
  `SEQUENCE_NAME` varchar(255) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `NEXT_VAL` bigint(20) NOT NULL,
  PRIMARY KEY (`SEQUENCE_NAME`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
INSERT INTO `SEQUENCE_TABLE` VALUES ('org.apache.hadoop.hive.metastore.model.MColumnDescriptor',26);
INSERT INTO `SEQUENCE_TABLE` VALUES ('org.apache.hadoop.hive.metastore.model.MDatabase',6);
INSERT INTO `SEQUENCE_TABLE` VALUES ('org.apache.hadoop.hive.metastore.model.MGlobalPrivilege',6);
INSERT INTO `SEQUENCE_TABLE` VALUES ('org.apache.hadoop.hive.metastore.model.MPartition',21);
INSERT INTO `SEQUENCE_TABLE` VALUES ('org.apache.hadoop.hive.metastore.model.MRole',6);
INSERT INTO `SEQUENCE_TABLE` VALUES ('org.apache.hadoop.hive.metastore.model.MSerDeInfo',46);
INSERT INTO `SEQUENCE_TABLE` VALUES ('org.apache.hadoop.hive.metastore.model.MStorageDescriptor',46);
INSERT INTO `SEQUENCE_TABLE` VALUES ('org.apache.hadoop.hive.metastore.model.MStringList',6);
INSERT INTO `SEQUENCE_TABLE` VALUES ('org.apache.hadoop.hive.metastore.model.MTable',26);
INSERT INTO `SEQUENCE_TABLE` VALUES ('org.apache.hadoop.hive.metastore.model.MTablePrivilege',91);
CREATE TABLE `SERDES` (
  `SERDE_ID` bigint(20) NOT NULL,
  `NAME` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `SLIB` varchar(4000) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  PRIMARY KEY (`SERDE_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
INSERT INTO `SERDES` VALUES (1,NULL,'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO `SERDES` VALUES (2,NULL,'org.apache.hadoop.hive.ql.io.orc.OrcSerde');
INSERT INTO `SERDES` VALUES (3,NULL,'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO `SERDES` VALUES (4,NULL,'org.apache.hadoop.hive.serde2.avro.AvroSerDe');
INSERT INTO `SERDES` VALUES (5,NULL,'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO `SERDES` VALUES (6,NULL,'org.apache.hadoop.hive.serde2.columnar.LazyBinaryColumnarSerDe');
INSERT INTO `SERDES` VALUES (7,NULL,'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO `SERDES` VALUES (8,NULL,'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO `SERDES` VALUES (9,NULL,'org.apache.hadoop.hive.ql.io.orc.OrcSerde');
INSERT INTO `SERDES` VALUES (10,NULL,'org.apache.hadoop.hive.ql.io.orc.OrcSerde');
INSERT INTO `SERDES` VALUES (11,NULL,'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO `SERDES` VALUES (12,NULL,'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO `SERDES` VALUES (13,NULL,'org.apache.hadoop.hive.serde2.avro.AvroSerDe');
INSERT INTO `SERDES` VALUES (14,NULL,'org.apache.hadoop.hive.serde2.avro.AvroSerDe');
INSERT INTO `SERDES` VALUES (15,NULL,'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO `SERDES` VALUES (16,NULL,'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO `SERDES` VALUES (17,NULL,'org.apache.hadoop.hive.serde2.columnar.LazyBinaryColumnarSerDe');
INSERT INTO `SERDES` VALUES (18,NULL,'org.apache.hadoop.hive.serde2.columnar.LazyBinaryColumnarSerDe');
INSERT INTO `SERDES` VALUES (19,NULL,'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO `SERDES` VALUES (20,NULL,'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO `SERDES` VALUES (21,NULL,'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO `SERDES` VALUES (22,NULL,'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO `SERDES` VALUES (23,NULL,'org.apache.hadoop.hive.ql.io.orc.OrcSerde');
INSERT INTO `SERDES` VALUES (24,NULL,'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO `SERDES` VALUES (25,NULL,'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO `SERDES` VALUES (26,NULL,'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO `SERDES` VALUES (27,NULL,'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO `SERDES` VALUES (28,NULL,'org.apache.hadoop.hive.ql.io.orc.OrcSerde');
INSERT INTO `SERDES` VALUES (29,NULL,'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO `SERDES` VALUES (30,NULL,'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO `SERDES` VALUES (31,NULL,'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO `SERDES` VALUES (32,NULL,'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO `SERDES` VALUES (33,NULL,'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO `SERDES` VALUES (34,NULL,'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO `SERDES` VALUES (35,NULL,'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO `SERDES` VALUES (36,NULL,'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO `SERDES` VALUES (37,NULL,'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO `SERDES` VALUES (38,NULL,'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO `SERDES` VALUES (39,NULL,'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
INSERT INTO `SERDES` VALUES (40,NULL,'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe');
INSERT INTO `SERDES` VALUES (41,NULL,'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe');
CREATE TABLE `SERDE_PARAMS` (
  `SERDE_ID` bigint(20) NOT NULL,
  `PARAM_KEY` varchar(256) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `PARAM_VALUE` varchar(32672) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  PRIMARY KEY (`SERDE_ID`,`PARAM_KEY`),
  KEY `SERDE_PARAMS_N49` (`SERDE_ID`),
  CONSTRAINT `SERDE_PARAMS_FK1` FOREIGN KEY (`SERDE_ID`) REFERENCES `SERDES` (`SERDE_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
INSERT INTO `SERDE_PARAMS` VALUES (1,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (2,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (3,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (4,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (5,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (6,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (7,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (8,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (9,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (10,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (11,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (12,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (13,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (14,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (15,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (16,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (17,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (18,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (19,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (20,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (21,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (22,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (23,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (24,'field.delim',',');
INSERT INTO `SERDE_PARAMS` VALUES (24,'serialization.format',',');
INSERT INTO `SERDE_PARAMS` VALUES (25,'field.delim',',');
INSERT INTO `SERDE_PARAMS` VALUES (25,'serialization.format',',');
INSERT INTO `SERDE_PARAMS` VALUES (26,'field.delim',',');
INSERT INTO `SERDE_PARAMS` VALUES (26,'serialization.format',',');
INSERT INTO `SERDE_PARAMS` VALUES (27,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (28,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (29,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (30,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (31,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (32,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (33,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (34,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (35,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (36,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (37,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (38,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (39,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (40,'serialization.format','1');
INSERT INTO `SERDE_PARAMS` VALUES (41,'serialization.format','1');
CREATE TABLE `SKEWED_COL_NAMES` (
  `SD_ID` bigint(20) NOT NULL,
  `SKEWED_COL_NAME` varchar(255) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `INTEGER_IDX` int(11) NOT NULL,
  PRIMARY KEY (`SD_ID`,`INTEGER_IDX`),
  KEY `SKEWED_COL_NAMES_N49` (`SD_ID`),
  CONSTRAINT `SKEWED_COL_NAMES_FK1` FOREIGN KEY (`SD_ID`) REFERENCES `SDS` (`SD_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
INSERT INTO `SKEWED_COL_NAMES` VALUES (35,'id',0);
CREATE TABLE `SKEWED_COL_VALUE_LOC_MAP` (
  `SD_ID` bigint(20) NOT NULL,
  `STRING_LIST_ID_KID` bigint(20) NOT NULL,
  `LOCATION` varchar(4000) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  PRIMARY KEY (`SD_ID`,`STRING_LIST_ID_KID`),
  KEY `SKEWED_COL_VALUE_LOC_MAP_N50` (`SD_ID`),
  KEY `SKEWED_COL_VALUE_LOC_MAP_N49` (`STRING_LIST_ID_KID`),
  CONSTRAINT `SKEWED_COL_VALUE_LOC_MAP_FK1` FOREIGN KEY (`SD_ID`) REFERENCES `SDS` (`SD_ID`),
  CONSTRAINT `SKEWED_COL_VALUE_LOC_MAP_FK2` FOREIGN KEY (`STRING_LIST_ID_KID`) REFERENCES `SKEWED_STRING_LIST` (`STRING_LIST_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `SKEWED_STRING_LIST` (
  `STRING_LIST_ID` bigint(20) NOT NULL,
  PRIMARY KEY (`STRING_LIST_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
INSERT INTO `SKEWED_STRING_LIST` VALUES (1);
CREATE TABLE `SKEWED_STRING_LIST_VALUES` (
  `STRING_LIST_ID` bigint(20) NOT NULL,
  `STRING_LIST_VALUE` varchar(255) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `INTEGER_IDX` int(11) NOT NULL,
  PRIMARY KEY (`STRING_LIST_ID`,`INTEGER_IDX`),
  KEY `SKEWED_STRING_LIST_VALUES_N49` (`STRING_LIST_ID`),
  CONSTRAINT `SKEWED_STRING_LIST_VALUES_FK1` FOREIGN KEY (`STRING_LIST_ID`) REFERENCES `SKEWED_STRING_LIST` (`STRING_LIST_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
INSERT INTO `SKEWED_STRING_LIST_VALUES` VALUES (1,'1',0);
CREATE TABLE `SKEWED_VALUES` (
  `SD_ID_OID` bigint(20) NOT NULL,
  `STRING_LIST_ID_EID` bigint(20) DEFAULT NULL,
  `INTEGER_IDX` int(11) NOT NULL,
  PRIMARY KEY (`SD_ID_OID`,`INTEGER_IDX`),
  KEY `SKEWED_VALUES_N50` (`SD_ID_OID`),
  KEY `SKEWED_VALUES_N49` (`STRING_LIST_ID_EID`),
  CONSTRAINT `SKEWED_VALUES_FK1` FOREIGN KEY (`SD_ID_OID`) REFERENCES `SDS` (`SD_ID`),
  CONSTRAINT `SKEWED_VALUES_FK2` FOREIGN KEY (`STRING_LIST_ID_EID`) REFERENCES `SKEWED_STRING_LIST` (`STRING_LIST_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
INSERT INTO `SKEWED_VALUES` VALUES (35,1,0);
CREATE TABLE `SORT_COLS` (
  `SD_ID` bigint(20) NOT NULL,
  `COLUMN_NAME` varchar(767) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `ORDER` int(11) NOT NULL,
  `INTEGER_IDX` int(11) NOT NULL,
  PRIMARY KEY (`SD_ID`,`INTEGER_IDX`),
  KEY `SORT_COLS_N49` (`SD_ID`),
  CONSTRAINT `SORT_COLS_FK1` FOREIGN KEY (`SD_ID`) REFERENCES `SDS` (`SD_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
INSERT INTO `SORT_COLS` VALUES (27,'name',1,0);
CREATE TABLE `TABLE_PARAMS` (
  `TBL_ID` bigint(20) NOT NULL,
  `PARAM_KEY` varchar(256) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `PARAM_VALUE` varchar(32672) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  PRIMARY KEY (`TBL_ID`,`PARAM_KEY`),
  KEY `TABLE_PARAMS_N49` (`TBL_ID`),
  CONSTRAINT `TABLE_PARAMS_FK1` FOREIGN KEY (`TBL_ID`) REFERENCES `TBLS` (`TBL_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
INSERT INTO `TABLE_PARAMS` VALUES (1,'spark.sql.create.version','4.3.0');
INSERT INTO `TABLE_PARAMS` VALUES (1,'spark.sql.sources.schema','{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"name\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}},{\"name\":\"dt\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}');
INSERT INTO `TABLE_PARAMS` VALUES (1,'spark.sql.sources.schema.numPartCols','1');
INSERT INTO `TABLE_PARAMS` VALUES (1,'spark.sql.sources.schema.partCol.0','dt');
INSERT INTO `TABLE_PARAMS` VALUES (1,'transient_lastDdlTime','1794811421');
INSERT INTO `TABLE_PARAMS` VALUES (2,'spark.sql.create.version','4.3.0');
INSERT INTO `TABLE_PARAMS` VALUES (2,'spark.sql.sources.schema','{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"name\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}},{\"name\":\"dt\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}');
INSERT INTO `TABLE_PARAMS` VALUES (2,'spark.sql.sources.schema.numPartCols','1');
INSERT INTO `TABLE_PARAMS` VALUES (2,'spark.sql.sources.schema.partCol.0','dt');
INSERT INTO `TABLE_PARAMS` VALUES (2,'transient_lastDdlTime','1794811422');
INSERT INTO `TABLE_PARAMS` VALUES (3,'spark.sql.create.version','4.3.0');
INSERT INTO `TABLE_PARAMS` VALUES (3,'spark.sql.sources.schema','{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"name\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}},{\"name\":\"dt\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}');
INSERT INTO `TABLE_PARAMS` VALUES (3,'spark.sql.sources.schema.numPartCols','1');
INSERT INTO `TABLE_PARAMS` VALUES (3,'spark.sql.sources.schema.partCol.0','dt');
INSERT INTO `TABLE_PARAMS` VALUES (3,'transient_lastDdlTime','1794811422');
INSERT INTO `TABLE_PARAMS` VALUES (4,'spark.sql.create.version','4.3.0');
INSERT INTO `TABLE_PARAMS` VALUES (4,'spark.sql.sources.schema','{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"name\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}},{\"name\":\"dt\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}');
INSERT INTO `TABLE_PARAMS` VALUES (4,'spark.sql.sources.schema.numPartCols','1');
INSERT INTO `TABLE_PARAMS` VALUES (4,'spark.sql.sources.schema.partCol.0','dt');
INSERT INTO `TABLE_PARAMS` VALUES (4,'transient_lastDdlTime','1794811423');
INSERT INTO `TABLE_PARAMS` VALUES (5,'spark.sql.create.version','4.3.0');
INSERT INTO `TABLE_PARAMS` VALUES (5,'spark.sql.sources.schema','{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"name\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}},{\"name\":\"dt\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}');
INSERT INTO `TABLE_PARAMS` VALUES (5,'spark.sql.sources.schema.numPartCols','1');
INSERT INTO `TABLE_PARAMS` VALUES (5,'spark.sql.sources.schema.partCol.0','dt');
INSERT INTO `TABLE_PARAMS` VALUES (5,'transient_lastDdlTime','1794811423');
INSERT INTO `TABLE_PARAMS` VALUES (6,'spark.sql.create.version','4.3.0');
INSERT INTO `TABLE_PARAMS` VALUES (6,'spark.sql.sources.schema','{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"name\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}},{\"name\":\"dt\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}');
INSERT INTO `TABLE_PARAMS` VALUES (6,'spark.sql.sources.schema.numPartCols','1');
INSERT INTO `TABLE_PARAMS` VALUES (6,'spark.sql.sources.schema.partCol.0','dt');
INSERT INTO `TABLE_PARAMS` VALUES (6,'transient_lastDdlTime','1794811423');
INSERT INTO `TABLE_PARAMS` VALUES (7,'spark.sql.create.version','4.3.0');
INSERT INTO `TABLE_PARAMS` VALUES (7,'spark.sql.sources.schema','{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"name\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}');
INSERT INTO `TABLE_PARAMS` VALUES (7,'transient_lastDdlTime','1794811428');
INSERT INTO `TABLE_PARAMS` VALUES (8,'spark.sql.create.version','4.3.0');
INSERT INTO `TABLE_PARAMS` VALUES (8,'spark.sql.sources.schema','{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"name\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}},{\"name\":\"dt\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}');
INSERT INTO `TABLE_PARAMS` VALUES (8,'spark.sql.sources.schema.numPartCols','1');
INSERT INTO `TABLE_PARAMS` VALUES (8,'spark.sql.sources.schema.partCol.0','dt');
INSERT INTO `TABLE_PARAMS` VALUES (8,'transient_lastDdlTime','1794811428');
INSERT INTO `TABLE_PARAMS` VALUES (9,'skip.header.line.count','1');
INSERT INTO `TABLE_PARAMS` VALUES (9,'spark.sql.create.version','4.3.0');
INSERT INTO `TABLE_PARAMS` VALUES (9,'spark.sql.sources.schema','{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"name\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}},{\"name\":\"dt\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}},{\"name\":\"hour\",\"type\":\"integer\",\"nullable\":true,\"metadata\":{}}]}');
INSERT INTO `TABLE_PARAMS` VALUES (9,'spark.sql.sources.schema.numPartCols','2');
INSERT INTO `TABLE_PARAMS` VALUES (9,'spark.sql.sources.schema.partCol.0','dt');
INSERT INTO `TABLE_PARAMS` VALUES (9,'spark.sql.sources.schema.partCol.1','hour');
INSERT INTO `TABLE_PARAMS` VALUES (9,'transient_lastDdlTime','1794811430');
INSERT INTO `TABLE_PARAMS` VALUES (10,'spark.sql.create.version','4.3.0');
INSERT INTO `TABLE_PARAMS` VALUES (10,'spark.sql.sources.schema','{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"name\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}');
INSERT INTO `TABLE_PARAMS` VALUES (10,'spark.sql.sources.schema.bucketCol.0','id');
INSERT INTO `TABLE_PARAMS` VALUES (10,'spark.sql.sources.schema.numBucketCols','1');
INSERT INTO `TABLE_PARAMS` VALUES (10,'spark.sql.sources.schema.numBuckets','4');
INSERT INTO `TABLE_PARAMS` VALUES (10,'spark.sql.sources.schema.numSortCols','1');
INSERT INTO `TABLE_PARAMS` VALUES (10,'spark.sql.sources.schema.sortCol.0','name');
INSERT INTO `TABLE_PARAMS` VALUES (10,'transient_lastDdlTime','1794811430');
INSERT INTO `TABLE_PARAMS` VALUES (11,'numFiles','0');
INSERT INTO `TABLE_PARAMS` VALUES (11,'spark.sql.create.version','4.3.0');
INSERT INTO `TABLE_PARAMS` VALUES (11,'spark.sql.sources.schema','{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"name\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}');
INSERT INTO `TABLE_PARAMS` VALUES (11,'spark.sql.sources.schema.bucketCol.0','id');
INSERT INTO `TABLE_PARAMS` VALUES (11,'spark.sql.sources.schema.numBucketCols','1');
INSERT INTO `TABLE_PARAMS` VALUES (11,'spark.sql.sources.schema.numBuckets','2');
INSERT INTO `TABLE_PARAMS` VALUES (11,'totalSize','0');
INSERT INTO `TABLE_PARAMS` VALUES (11,'transactional','true');
INSERT INTO `TABLE_PARAMS` VALUES (11,'transient_lastDdlTime','1794811431');
INSERT INTO `TABLE_PARAMS` VALUES (12,'numFiles','0');
INSERT INTO `TABLE_PARAMS` VALUES (12,'spark.sql.create.version','4.3.0');
INSERT INTO `TABLE_PARAMS` VALUES (12,'spark.sql.sources.schema','{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"name\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}');
INSERT INTO `TABLE_PARAMS` VALUES (12,'storage_handler','org.apache.hadoop.hive.hbase.HBaseStorageHandler');
INSERT INTO `TABLE_PARAMS` VALUES (12,'totalSize','0');
INSERT INTO `TABLE_PARAMS` VALUES (12,'transient_lastDdlTime','1794811431');
INSERT INTO `TABLE_PARAMS` VALUES (13,'numFiles','0');
INSERT INTO `TABLE_PARAMS` VALUES (13,'spark.sql.create.version','4.3.0');
INSERT INTO `TABLE_PARAMS` VALUES (13,'spark.sql.sources.provider','delta');
INSERT INTO `TABLE_PARAMS` VALUES (13,'spark.sql.sources.schema','{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"name\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}');
INSERT INTO `TABLE_PARAMS` VALUES (13,'totalSize','0');
INSERT INTO `TABLE_PARAMS` VALUES (13,'transient_lastDdlTime','1794811431');
INSERT INTO `TABLE_PARAMS` VALUES (14,'metadata_location','s3://lake/t/metadata/1.metadata.json');
INSERT INTO `TABLE_PARAMS` VALUES (14,'numFiles','0');
INSERT INTO `TABLE_PARAMS` VALUES (14,'spark.sql.create.version','4.3.0');
INSERT INTO `TABLE_PARAMS` VALUES (14,'spark.sql.sources.schema','{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"name\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}');
INSERT INTO `TABLE_PARAMS` VALUES (14,'table_type','ICEBERG');
INSERT INTO `TABLE_PARAMS` VALUES (14,'totalSize','0');
INSERT INTO `TABLE_PARAMS` VALUES (14,'transient_lastDdlTime','1794811431');
INSERT INTO `TABLE_PARAMS` VALUES (15,'spark.sql.create.version','4.3.0');
INSERT INTO `TABLE_PARAMS` VALUES (15,'spark.sql.sources.schema','{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"name\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}},{\"name\":\"dt\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}');
INSERT INTO `TABLE_PARAMS` VALUES (15,'spark.sql.sources.schema.numPartCols','1');
INSERT INTO `TABLE_PARAMS` VALUES (15,'spark.sql.sources.schema.partCol.0','dt');
INSERT INTO `TABLE_PARAMS` VALUES (15,'transient_lastDdlTime','1794811431');
INSERT INTO `TABLE_PARAMS` VALUES (16,'numFiles','0');
INSERT INTO `TABLE_PARAMS` VALUES (16,'spark.sql.create.version','4.3.0');
INSERT INTO `TABLE_PARAMS` VALUES (16,'spark.sql.sources.schema','{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"name\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}');
INSERT INTO `TABLE_PARAMS` VALUES (16,'totalSize','0');
INSERT INTO `TABLE_PARAMS` VALUES (16,'transient_lastDdlTime','1794811432');
INSERT INTO `TABLE_PARAMS` VALUES (17,'EXTERNAL','TRUE');
INSERT INTO `TABLE_PARAMS` VALUES (17,'spark.sql.create.version','4.3.0');
INSERT INTO `TABLE_PARAMS` VALUES (17,'spark.sql.sources.schema','{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"name\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}');
INSERT INTO `TABLE_PARAMS` VALUES (17,'transient_lastDdlTime','1794811432');
INSERT INTO `TABLE_PARAMS` VALUES (18,'EXTERNAL','TRUE');
INSERT INTO `TABLE_PARAMS` VALUES (18,'numFiles','0');
INSERT INTO `TABLE_PARAMS` VALUES (18,'spark.sql.create.version','4.3.0');
INSERT INTO `TABLE_PARAMS` VALUES (18,'spark.sql.sources.schema','{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"name\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}');
INSERT INTO `TABLE_PARAMS` VALUES (18,'totalSize','0');
INSERT INTO `TABLE_PARAMS` VALUES (18,'transient_lastDdlTime','1794811432');
INSERT INTO `TABLE_PARAMS` VALUES (19,'EXTERNAL','TRUE');
INSERT INTO `TABLE_PARAMS` VALUES (19,'spark.sql.create.version','4.3.0');
INSERT INTO `TABLE_PARAMS` VALUES (19,'spark.sql.sources.schema','{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"name\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}},{\"name\":\"dt\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}');
INSERT INTO `TABLE_PARAMS` VALUES (19,'spark.sql.sources.schema.numPartCols','1');
INSERT INTO `TABLE_PARAMS` VALUES (19,'spark.sql.sources.schema.partCol.0','dt');
INSERT INTO `TABLE_PARAMS` VALUES (19,'transient_lastDdlTime','1794811432');
INSERT INTO `TABLE_PARAMS` VALUES (20,'EXTERNAL','TRUE');
INSERT INTO `TABLE_PARAMS` VALUES (20,'spark.sql.create.version','4.3.0');
INSERT INTO `TABLE_PARAMS` VALUES (20,'spark.sql.sources.schema','{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"name\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}');
INSERT INTO `TABLE_PARAMS` VALUES (20,'transient_lastDdlTime','1794811433');
INSERT INTO `TABLE_PARAMS` VALUES (21,'spark.sql.create.version','4.3.0');
INSERT INTO `TABLE_PARAMS` VALUES (21,'spark.sql.sources.schema','{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}}]}');
INSERT INTO `TABLE_PARAMS` VALUES (21,'transient_lastDdlTime','1794811433');
INSERT INTO `TABLE_PARAMS` VALUES (21,'view.catalogAndNamespace.numParts','2');
INSERT INTO `TABLE_PARAMS` VALUES (21,'view.catalogAndNamespace.part.0','spark_catalog');
INSERT INTO `TABLE_PARAMS` VALUES (21,'view.catalogAndNamespace.part.1','default');
INSERT INTO `TABLE_PARAMS` VALUES (21,'view.query.out.col.0','id');
INSERT INTO `TABLE_PARAMS` VALUES (21,'view.query.out.numCols','1');
INSERT INTO `TABLE_PARAMS` VALUES (21,'view.referredTempFunctionsNames','[]');
INSERT INTO `TABLE_PARAMS` VALUES (21,'view.referredTempVariablesNames','[]');
INSERT INTO `TABLE_PARAMS` VALUES (21,'view.referredTempViewNames','[]');
INSERT INTO `TABLE_PARAMS` VALUES (21,'view.schemaMode','COMPENSATION');
INSERT INTO `TABLE_PARAMS` VALUES (21,'view.sqlConfig.spark.sql.ansi.enabled','true');
INSERT INTO `TABLE_PARAMS` VALUES (21,'view.sqlConfig.spark.sql.artifact.isolation.enabled','false');
INSERT INTO `TABLE_PARAMS` VALUES (21,'view.sqlConfig.spark.sql.session.timeZone','Etc/UTC');
INSERT INTO `TABLE_PARAMS` VALUES (22,'EXTERNAL','TRUE');
INSERT INTO `TABLE_PARAMS` VALUES (22,'spark.sql.create.version','4.3.0');
INSERT INTO `TABLE_PARAMS` VALUES (22,'spark.sql.sources.schema','{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"name\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}');
INSERT INTO `TABLE_PARAMS` VALUES (22,'transient_lastDdlTime','1794811433');
CREATE TABLE `TAB_COL_STATS` (
  `CS_ID` bigint(20) NOT NULL,
  `AVG_COL_LEN` double DEFAULT NULL,
  `COLUMN_NAME` varchar(767) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `COLUMN_TYPE` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `DB_NAME` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `BIG_DECIMAL_HIGH_VALUE` varchar(255) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `BIG_DECIMAL_LOW_VALUE` varchar(255) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `DOUBLE_HIGH_VALUE` double DEFAULT NULL,
  `DOUBLE_LOW_VALUE` double DEFAULT NULL,
  `LAST_ANALYZED` bigint(20) NOT NULL,
  `LONG_HIGH_VALUE` bigint(20) DEFAULT NULL,
  `LONG_LOW_VALUE` bigint(20) DEFAULT NULL,
  `MAX_COL_LEN` bigint(20) DEFAULT NULL,
  `NUM_DISTINCTS` bigint(20) DEFAULT NULL,
  `NUM_FALSES` bigint(20) DEFAULT NULL,
  `NUM_NULLS` bigint(20) NOT NULL,
  `NUM_TRUES` bigint(20) DEFAULT NULL,
  `TBL_ID` bigint(20) DEFAULT NULL,
  `TABLE_NAME` varchar(256) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  PRIMARY KEY (`CS_ID`),
  KEY `TAB_COL_STATS_N49` (`TBL_ID`),
  CONSTRAINT `TAB_COL_STATS_FK1` FOREIGN KEY (`TBL_ID`) REFERENCES `TBLS` (`TBL_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `TBLS` (
  `TBL_ID` bigint(20) NOT NULL,
  `CREATE_TIME` int(11) NOT NULL,
  `DB_ID` bigint(20) DEFAULT NULL,
  `LAST_ACCESS_TIME` int(11) NOT NULL,
  `OWNER` varchar(767) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `RETENTION` int(11) NOT NULL,
  `IS_REWRITE_ENABLED` bit(1) NOT NULL,
  `SD_ID` bigint(20) DEFAULT NULL,
  `TBL_NAME` varchar(256) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `TBL_TYPE` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `VIEW_EXPANDED_TEXT` text DEFAULT NULL,
  `VIEW_ORIGINAL_TEXT` text DEFAULT NULL,
  PRIMARY KEY (`TBL_ID`),
  UNIQUE KEY `UNIQUETABLE` (`TBL_NAME`,`DB_ID`),
  KEY `TBLS_N50` (`SD_ID`),
  KEY `TBLS_N49` (`DB_ID`),
  CONSTRAINT `TBLS_FK1` FOREIGN KEY (`DB_ID`) REFERENCES `DBS` (`DB_ID`),
  CONSTRAINT `TBLS_FK2` FOREIGN KEY (`SD_ID`) REFERENCES `SDS` (`SD_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
INSERT INTO `TBLS` VALUES (1,1794811421,2,0,'root',0,'\0',1,'t_parquet','MANAGED_TABLE',NULL,NULL);
INSERT INTO `TBLS` VALUES (2,1794811422,2,0,'root',0,'\0',2,'t_orc','MANAGED_TABLE',NULL,NULL);
INSERT INTO `TBLS` VALUES (3,1794811422,2,0,'root',0,'\0',3,'t_textfile','MANAGED_TABLE',NULL,NULL);
INSERT INTO `TBLS` VALUES (4,1794811423,2,0,'root',0,'\0',4,'t_avro','MANAGED_TABLE',NULL,NULL);
INSERT INTO `TBLS` VALUES (5,1794811423,2,0,'root',0,'\0',5,'t_sequencefile','MANAGED_TABLE',NULL,NULL);
INSERT INTO `TBLS` VALUES (6,1794811423,2,0,'root',0,'\0',6,'t_rcfile','MANAGED_TABLE',NULL,NULL);
INSERT INTO `TBLS` VALUES (7,1794811428,2,0,'root',0,'\0',19,'plain','MANAGED_TABLE',NULL,NULL);
INSERT INTO `TBLS` VALUES (8,1794811428,2,0,'root',0,'\0',20,'mixed','MANAGED_TABLE',NULL,NULL);
INSERT INTO `TBLS` VALUES (9,1794811430,2,0,'root',0,'\0',24,'headed','MANAGED_TABLE',NULL,NULL);
INSERT INTO `TBLS` VALUES (10,1794811430,2,0,'root',0,'\0',27,'bucketed','MANAGED_TABLE',NULL,NULL);
INSERT INTO `TBLS` VALUES (11,1794811431,2,0,'root',0,'\0',28,'acid','MANAGED_TABLE',NULL,NULL);
INSERT INTO `TBLS` VALUES (12,1794811431,2,0,'root',0,'\0',29,'handled','MANAGED_TABLE',NULL,NULL);
INSERT INTO `TBLS` VALUES (13,1794811431,2,0,'root',0,'\0',30,'lake_delta','MANAGED_TABLE',NULL,NULL);
INSERT INTO `TBLS` VALUES (14,1794811431,2,0,'root',0,'\0',31,'lake_iceberg','MANAGED_TABLE',NULL,NULL);
INSERT INTO `TBLS` VALUES (15,1794811431,2,0,'root',0,'\0',32,'archived','MANAGED_TABLE',NULL,NULL);
INSERT INTO `TBLS` VALUES (16,1794811432,2,0,'root',0,'\0',35,'skewed','MANAGED_TABLE',NULL,NULL);
INSERT INTO `TBLS` VALUES (17,1794811432,2,0,'root',0,'\0',36,'shared_a','EXTERNAL_TABLE',NULL,NULL);
INSERT INTO `TBLS` VALUES (18,1794811432,2,0,'root',0,'\0',37,'shared_b','EXTERNAL_TABLE',NULL,NULL);
INSERT INTO `TBLS` VALUES (19,1794811432,2,0,'root',0,'\0',38,'outer_one','EXTERNAL_TABLE',NULL,NULL);
INSERT INTO `TBLS` VALUES (20,1794811433,2,0,'root',0,'\0',39,'inner_one','EXTERNAL_TABLE',NULL,NULL);
INSERT INTO `TBLS` VALUES (21,1794811433,2,0,'root',0,'\0',40,'a_view','VIRTUAL_VIEW','select id from sales.plain','select id from sales.plain');
INSERT INTO `TBLS` VALUES (22,1794811433,2,0,'root',0,'\0',41,'owned_outside','EXTERNAL_TABLE',NULL,NULL);
CREATE TABLE `TBL_COL_PRIVS` (
  `TBL_COLUMN_GRANT_ID` bigint(20) NOT NULL,
  `COLUMN_NAME` varchar(767) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `CREATE_TIME` int(11) NOT NULL,
  `GRANT_OPTION` smallint(6) NOT NULL CHECK (`GRANT_OPTION` in (0,1)),
  `GRANTOR` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `GRANTOR_TYPE` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `PRINCIPAL_NAME` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `PRINCIPAL_TYPE` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `TBL_COL_PRIV` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `TBL_ID` bigint(20) DEFAULT NULL,
  PRIMARY KEY (`TBL_COLUMN_GRANT_ID`),
  KEY `TABLECOLUMNPRIVILEGEINDEX` (`TBL_ID`,`COLUMN_NAME`,`PRINCIPAL_NAME`,`PRINCIPAL_TYPE`,`TBL_COL_PRIV`,`GRANTOR`,`GRANTOR_TYPE`),
  KEY `TBL_COL_PRIVS_N49` (`TBL_ID`),
  CONSTRAINT `TBL_COL_PRIVS_FK1` FOREIGN KEY (`TBL_ID`) REFERENCES `TBLS` (`TBL_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `TBL_PRIVS` (
  `TBL_GRANT_ID` bigint(20) NOT NULL,
  `CREATE_TIME` int(11) NOT NULL,
  `GRANT_OPTION` smallint(6) NOT NULL CHECK (`GRANT_OPTION` in (0,1)),
  `GRANTOR` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `GRANTOR_TYPE` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `PRINCIPAL_NAME` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `PRINCIPAL_TYPE` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `TBL_PRIV` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `TBL_ID` bigint(20) DEFAULT NULL,
  PRIMARY KEY (`TBL_GRANT_ID`),
  KEY `TABLEPRIVILEGEINDEX` (`TBL_ID`,`PRINCIPAL_NAME`,`PRINCIPAL_TYPE`,`TBL_PRIV`,`GRANTOR`,`GRANTOR_TYPE`),
  KEY `TBL_PRIVS_N49` (`TBL_ID`),
  CONSTRAINT `TBL_PRIVS_FK1` FOREIGN KEY (`TBL_ID`) REFERENCES `TBLS` (`TBL_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
INSERT INTO `TBL_PRIVS` VALUES (1,1794811421,1,'root','USER','root','USER','INSERT',1);
INSERT INTO `TBL_PRIVS` VALUES (2,1794811421,1,'root','USER','root','USER','SELECT',1);
INSERT INTO `TBL_PRIVS` VALUES (3,1794811421,1,'root','USER','root','USER','UPDATE',1);
INSERT INTO `TBL_PRIVS` VALUES (4,1794811421,1,'root','USER','root','USER','DELETE',1);
INSERT INTO `TBL_PRIVS` VALUES (5,1794811422,1,'root','USER','root','USER','INSERT',2);
INSERT INTO `TBL_PRIVS` VALUES (6,1794811422,1,'root','USER','root','USER','SELECT',2);
INSERT INTO `TBL_PRIVS` VALUES (7,1794811422,1,'root','USER','root','USER','UPDATE',2);
INSERT INTO `TBL_PRIVS` VALUES (8,1794811422,1,'root','USER','root','USER','DELETE',2);
INSERT INTO `TBL_PRIVS` VALUES (9,1794811422,1,'root','USER','root','USER','INSERT',3);
INSERT INTO `TBL_PRIVS` VALUES (10,1794811422,1,'root','USER','root','USER','SELECT',3);
INSERT INTO `TBL_PRIVS` VALUES (11,1794811422,1,'root','USER','root','USER','UPDATE',3);
INSERT INTO `TBL_PRIVS` VALUES (12,1794811422,1,'root','USER','root','USER','DELETE',3);
INSERT INTO `TBL_PRIVS` VALUES (13,1794811423,1,'root','USER','root','USER','INSERT',4);
INSERT INTO `TBL_PRIVS` VALUES (14,1794811423,1,'root','USER','root','USER','SELECT',4);
INSERT INTO `TBL_PRIVS` VALUES (15,1794811423,1,'root','USER','root','USER','UPDATE',4);
INSERT INTO `TBL_PRIVS` VALUES (16,1794811423,1,'root','USER','root','USER','DELETE',4);
INSERT INTO `TBL_PRIVS` VALUES (17,1794811423,1,'root','USER','root','USER','INSERT',5);
INSERT INTO `TBL_PRIVS` VALUES (18,1794811423,1,'root','USER','root','USER','SELECT',5);
INSERT INTO `TBL_PRIVS` VALUES (19,1794811423,1,'root','USER','root','USER','UPDATE',5);
INSERT INTO `TBL_PRIVS` VALUES (20,1794811423,1,'root','USER','root','USER','DELETE',5);
INSERT INTO `TBL_PRIVS` VALUES (21,1794811423,1,'root','USER','root','USER','INSERT',6);
INSERT INTO `TBL_PRIVS` VALUES (22,1794811423,1,'root','USER','root','USER','SELECT',6);
INSERT INTO `TBL_PRIVS` VALUES (23,1794811423,1,'root','USER','root','USER','UPDATE',6);
INSERT INTO `TBL_PRIVS` VALUES (24,1794811423,1,'root','USER','root','USER','DELETE',6);
INSERT INTO `TBL_PRIVS` VALUES (25,1794811428,1,'root','USER','root','USER','INSERT',7);
INSERT INTO `TBL_PRIVS` VALUES (26,1794811428,1,'root','USER','root','USER','SELECT',7);
INSERT INTO `TBL_PRIVS` VALUES (27,1794811428,1,'root','USER','root','USER','UPDATE',7);
INSERT INTO `TBL_PRIVS` VALUES (28,1794811428,1,'root','USER','root','USER','DELETE',7);
INSERT INTO `TBL_PRIVS` VALUES (29,1794811428,1,'root','USER','root','USER','INSERT',8);
INSERT INTO `TBL_PRIVS` VALUES (30,1794811428,1,'root','USER','root','USER','SELECT',8);
INSERT INTO `TBL_PRIVS` VALUES (31,1794811428,1,'root','USER','root','USER','UPDATE',8);
INSERT INTO `TBL_PRIVS` VALUES (32,1794811428,1,'root','USER','root','USER','DELETE',8);
INSERT INTO `TBL_PRIVS` VALUES (33,1794811430,1,'root','USER','root','USER','INSERT',9);
INSERT INTO `TBL_PRIVS` VALUES (34,1794811430,1,'root','USER','root','USER','SELECT',9);
INSERT INTO `TBL_PRIVS` VALUES (35,1794811430,1,'root','USER','root','USER','UPDATE',9);
INSERT INTO `TBL_PRIVS` VALUES (36,1794811430,1,'root','USER','root','USER','DELETE',9);
INSERT INTO `TBL_PRIVS` VALUES (37,1794811431,1,'root','USER','root','USER','INSERT',10);
INSERT INTO `TBL_PRIVS` VALUES (38,1794811431,1,'root','USER','root','USER','SELECT',10);
INSERT INTO `TBL_PRIVS` VALUES (39,1794811431,1,'root','USER','root','USER','UPDATE',10);
INSERT INTO `TBL_PRIVS` VALUES (40,1794811431,1,'root','USER','root','USER','DELETE',10);
INSERT INTO `TBL_PRIVS` VALUES (41,1794811431,1,'root','USER','root','USER','INSERT',11);
INSERT INTO `TBL_PRIVS` VALUES (42,1794811431,1,'root','USER','root','USER','SELECT',11);
INSERT INTO `TBL_PRIVS` VALUES (43,1794811431,1,'root','USER','root','USER','UPDATE',11);
INSERT INTO `TBL_PRIVS` VALUES (44,1794811431,1,'root','USER','root','USER','DELETE',11);
INSERT INTO `TBL_PRIVS` VALUES (45,1794811431,1,'root','USER','root','USER','INSERT',12);
INSERT INTO `TBL_PRIVS` VALUES (46,1794811431,1,'root','USER','root','USER','SELECT',12);
INSERT INTO `TBL_PRIVS` VALUES (47,1794811431,1,'root','USER','root','USER','UPDATE',12);
INSERT INTO `TBL_PRIVS` VALUES (48,1794811431,1,'root','USER','root','USER','DELETE',12);
INSERT INTO `TBL_PRIVS` VALUES (49,1794811431,1,'root','USER','root','USER','INSERT',13);
INSERT INTO `TBL_PRIVS` VALUES (50,1794811431,1,'root','USER','root','USER','SELECT',13);
INSERT INTO `TBL_PRIVS` VALUES (51,1794811431,1,'root','USER','root','USER','UPDATE',13);
INSERT INTO `TBL_PRIVS` VALUES (52,1794811431,1,'root','USER','root','USER','DELETE',13);
INSERT INTO `TBL_PRIVS` VALUES (53,1794811431,1,'root','USER','root','USER','INSERT',14);
INSERT INTO `TBL_PRIVS` VALUES (54,1794811431,1,'root','USER','root','USER','SELECT',14);
INSERT INTO `TBL_PRIVS` VALUES (55,1794811431,1,'root','USER','root','USER','UPDATE',14);
INSERT INTO `TBL_PRIVS` VALUES (56,1794811431,1,'root','USER','root','USER','DELETE',14);
INSERT INTO `TBL_PRIVS` VALUES (57,1794811431,1,'root','USER','root','USER','INSERT',15);
INSERT INTO `TBL_PRIVS` VALUES (58,1794811431,1,'root','USER','root','USER','SELECT',15);
INSERT INTO `TBL_PRIVS` VALUES (59,1794811431,1,'root','USER','root','USER','UPDATE',15);
INSERT INTO `TBL_PRIVS` VALUES (60,1794811431,1,'root','USER','root','USER','DELETE',15);
INSERT INTO `TBL_PRIVS` VALUES (61,1794811432,1,'root','USER','root','USER','INSERT',16);
INSERT INTO `TBL_PRIVS` VALUES (62,1794811432,1,'root','USER','root','USER','SELECT',16);
INSERT INTO `TBL_PRIVS` VALUES (63,1794811432,1,'root','USER','root','USER','UPDATE',16);
INSERT INTO `TBL_PRIVS` VALUES (64,1794811432,1,'root','USER','root','USER','DELETE',16);
INSERT INTO `TBL_PRIVS` VALUES (65,1794811432,1,'root','USER','root','USER','INSERT',17);
INSERT INTO `TBL_PRIVS` VALUES (66,1794811432,1,'root','USER','root','USER','SELECT',17);
INSERT INTO `TBL_PRIVS` VALUES (67,1794811432,1,'root','USER','root','USER','UPDATE',17);
INSERT INTO `TBL_PRIVS` VALUES (68,1794811432,1,'root','USER','root','USER','DELETE',17);
INSERT INTO `TBL_PRIVS` VALUES (69,1794811432,1,'root','USER','root','USER','INSERT',18);
INSERT INTO `TBL_PRIVS` VALUES (70,1794811432,1,'root','USER','root','USER','SELECT',18);
INSERT INTO `TBL_PRIVS` VALUES (71,1794811432,1,'root','USER','root','USER','UPDATE',18);
INSERT INTO `TBL_PRIVS` VALUES (72,1794811432,1,'root','USER','root','USER','DELETE',18);
INSERT INTO `TBL_PRIVS` VALUES (73,1794811432,1,'root','USER','root','USER','INSERT',19);
INSERT INTO `TBL_PRIVS` VALUES (74,1794811432,1,'root','USER','root','USER','SELECT',19);
INSERT INTO `TBL_PRIVS` VALUES (75,1794811432,1,'root','USER','root','USER','UPDATE',19);
INSERT INTO `TBL_PRIVS` VALUES (76,1794811432,1,'root','USER','root','USER','DELETE',19);
INSERT INTO `TBL_PRIVS` VALUES (77,1794811433,1,'root','USER','root','USER','INSERT',20);
INSERT INTO `TBL_PRIVS` VALUES (78,1794811433,1,'root','USER','root','USER','SELECT',20);
INSERT INTO `TBL_PRIVS` VALUES (79,1794811433,1,'root','USER','root','USER','UPDATE',20);
INSERT INTO `TBL_PRIVS` VALUES (80,1794811433,1,'root','USER','root','USER','DELETE',20);
INSERT INTO `TBL_PRIVS` VALUES (81,1794811433,1,'root','USER','root','USER','INSERT',21);
INSERT INTO `TBL_PRIVS` VALUES (82,1794811433,1,'root','USER','root','USER','SELECT',21);
INSERT INTO `TBL_PRIVS` VALUES (83,1794811433,1,'root','USER','root','USER','UPDATE',21);
INSERT INTO `TBL_PRIVS` VALUES (84,1794811433,1,'root','USER','root','USER','DELETE',21);
INSERT INTO `TBL_PRIVS` VALUES (85,1794811433,1,'root','USER','root','USER','INSERT',22);
INSERT INTO `TBL_PRIVS` VALUES (86,1794811433,1,'root','USER','root','USER','SELECT',22);
INSERT INTO `TBL_PRIVS` VALUES (87,1794811433,1,'root','USER','root','USER','UPDATE',22);
INSERT INTO `TBL_PRIVS` VALUES (88,1794811433,1,'root','USER','root','USER','DELETE',22);
CREATE TABLE `TYPES` (
  `TYPES_ID` bigint(20) NOT NULL,
  `TYPE_NAME` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `TYPE1` varchar(767) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `TYPE2` varchar(767) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  PRIMARY KEY (`TYPES_ID`),
  UNIQUE KEY `UNIQUE_TYPE` (`TYPE_NAME`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `TYPE_FIELDS` (
  `TYPE_NAME` bigint(20) NOT NULL,
  `COMMENT` varchar(256) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,
  `FIELD_NAME` varchar(128) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `FIELD_TYPE` varchar(767) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `INTEGER_IDX` int(11) NOT NULL,
  PRIMARY KEY (`TYPE_NAME`,`FIELD_NAME`),
  KEY `TYPE_FIELDS_N49` (`TYPE_NAME`),
  CONSTRAINT `TYPE_FIELDS_FK1` FOREIGN KEY (`TYPE_NAME`) REFERENCES `TYPES` (`TYPES_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `VERSION` (
  `VER_ID` bigint(20) NOT NULL,
  `SCHEMA_VERSION` varchar(127) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `VERSION_COMMENT` varchar(255) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  PRIMARY KEY (`VER_ID`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
