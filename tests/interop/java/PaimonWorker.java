import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.paimon.append.AppendCompactCoordinator;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericArray;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.manifest.BucketEntry;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.stats.Statistics;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.DecimalType;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.types.RowType;

/**
 * Java Paimon behind JSON lines: the same questions and answers as paimon_interop/worker.py, and rows in the same form.
 *
 * <p>Run from source: {@code java -cp paimon-bundle.jar:... PaimonWorker.java}. Compacting is what Spark's {@code CALL
 * sys.compact} does in its tasks: {@code write.compact(partition, bucket, full)}, or the coordinator of append tables.
 */
public class PaimonWorker {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever a library prints is no answer
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.set("ok", new PaimonWorker().answer(JSON.readTree(line)));
            } catch (Throwable error) {
                StringWriter trace = new StringWriter();
                error.printStackTrace(new PrintWriter(trace));
                answer.put("error", String.valueOf(error.getMessage()));
                answer.put("kind", error.getClass().getSimpleName());
                answer.put("trace", trace.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
        }
    }

    private JsonNode answer(JsonNode request) throws Exception {
        Path path = new Path(request.get("table").asText());
        String database = path.getParent().getName().replaceFirst("\\.db$", "");
        Identifier name = Identifier.create(database, path.getName());
        String warehouse = path.getParent().getParent().toString();
        try (Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(new Path(warehouse)))) {
            switch (request.get("do").asText()) {
                case "create":
                    catalog.createDatabase(database, true);
                    catalog.createTable(name, schema(request), false);
                    return null;
                case "alter":
                    catalog.alterTable(name, changes(request.get("changes")), false);
                    return null;
                default:
                    return answer(request, (FileStoreTable) catalog.getTable(name));
            }
        }
    }

    private JsonNode answer(JsonNode request, FileStoreTable table) throws Exception {
        switch (request.get("do").asText()) {
            case "write":
                return write(table, request);
            case "read":
                return read(table, request);
            case "ask":
                return ask(table, request);
            case "stats":
                return stats(table);
            case "compact":
                return compact(table, request.path("full").asBoolean(true));
            case "create_tag":
                table.createTag(request.get("tag").asText());
                return null;
            case "expire":
                table.newExpireSnapshots()
                        .config(ExpireConfig.builder().snapshotRetainMin(1).snapshotRetainMax(1).build())
                        .expire();
                return null;
            case "analyze":
                return analyze(table);
            default:
                throw new IllegalArgumentException("no such request: " + request);
        }
    }

    private Schema schema(JsonNode request) {
        Schema.Builder schema = Schema.newBuilder();
        for (JsonNode field : request.get("fields")) {
            schema.column(field.get(0).asText(), DataTypeJsonParser.parseDataType(field.get(1)));
        }
        schema.primaryKey(texts(request.path("primary_keys"))).partitionKeys(texts(request.path("partition_keys")));
        request.path("options").fields().forEachRemaining(each -> schema.option(each.getKey(), each.getValue().asText()));
        return schema.build();
    }

    private List<SchemaChange> changes(JsonNode wanted) {
        List<SchemaChange> changes = new ArrayList<>();
        for (JsonNode change : wanted) {
            String first = change.get(1).asText();
            switch (change.get(0).asText()) {
                case "add_column": // "r.x" is a field of a row
                    DataType added = DataTypeJsonParser.parseDataType(change.get(2));
                    changes.add(SchemaChange.addColumn(first.split("\\."), added, null, null));
                    break;
                case "update_column_type":
                    changes.add(SchemaChange.updateColumnType(first, DataTypeJsonParser.parseDataType(change.get(2))));
                    break;
                case "rename_column":
                    changes.add(SchemaChange.renameColumn(first, change.get(2).asText()));
                    break;
                case "drop_column": // "r.x" is a field of a row
                    changes.add(SchemaChange.dropColumn(first.split("\\.")));
                    break;
                case "set_option":
                    changes.add(SchemaChange.setOption(first, change.get(2).asText()));
                    break;
                default:
                    throw new IllegalArgumentException("no such change: " + change);
            }
        }
        return changes;
    }

    /** One commit; "kinds" may give a row kind for each row. A table that is not write-only may compact on its own. */
    private JsonNode write(FileStoreTable table, JsonNode request) throws Exception {
        JsonNode rows = request.get("rows");
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite();
                IOManager disk = IOManager.create(System.getProperty("java.io.tmpdir"));
                BatchTableCommit commit = builder.newCommit()) {
            write.withIOManager(disk);
            for (int at = 0; at < rows.size(); at++) {
                GenericRow row = row(table, rows.get(at));
                if (request.has("kinds")) {
                    row.setRowKind(RowKind.fromShortString(request.get("kinds").get(at).asText()));
                }
                if (table.bucketMode() == BucketMode.HASH_DYNAMIC) {
                    // An assigner does this in Spark; any will do that gives a key the same bucket every time.
                    write.write(row, Math.floorMod(rows.get(at).get(0).asText().hashCode(), 2));
                } else {
                    write.write(row);
                }
            }
            commit.commit(write.prepareCommit());
        }
        return null;
    }

    private JsonNode compact(FileStoreTable wanted, boolean full) throws Exception {
        FileStoreTable table = wanted.copy(Map.of("write-only", "false"));
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite();
                IOManager disk = IOManager.create(System.getProperty("java.io.tmpdir"));
                BatchTableCommit commit = builder.newCommit()) {
            write.withIOManager(disk);
            List<CommitMessage> messages = new ArrayList<>();
            if (table.bucketMode() == BucketMode.BUCKET_UNAWARE) {
                BaseAppendFileStoreWrite store = (BaseAppendFileStoreWrite) table.store().newWrite("worker");
                for (AppendCompactTask task : new AppendCompactCoordinator(table, false).run()) {
                    messages.add(task.doCompact(table, store));
                }
                store.close();
            } else {
                for (BucketEntry entry : table.newSnapshotReader().bucketEntries()) {
                    write.compact(entry.partition(), entry.bucket(), full);
                }
                messages.addAll(write.prepareCommit());
            }
            commit.commit(messages);
        }
        return null;
    }

    /** What ANALYZE TABLE does: a snapshot with statistics, which later commits must hand on. */
    private JsonNode analyze(FileStoreTable table) throws Exception {
        try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
            long snapshot = table.snapshotManager().latestSnapshotId();
            commit.updateStatistics(new Statistics(snapshot, table.schema().id(), 1L, 1L));
        }
        return null;
    }

    private JsonNode read(FileStoreTable latest, JsonNode request) throws Exception {
        Map<String, String> options = new HashMap<>();
        if (request.has("snapshot")) {
            options.put("scan.snapshot-id", request.get("snapshot").asText());
        }
        if (request.has("tag")) {
            options.put("scan.tag-name", request.get("tag").asText());
        }
        FileStoreTable table = latest.copy(options);
        ReadBuilder builder = table.newReadBuilder();
        ObjectNode found = JSON.createObjectNode();
        ArrayNode columns = found.putArray("columns");
        table.rowType().getFieldNames().forEach(columns::add);
        ArrayNode rows = found.putArray("rows");
        try (IOManager disk = IOManager.create(System.getProperty("java.io.tmpdir"));
                RecordReader<InternalRow> reader =
                        builder.newRead().withIOManager(disk).createReader(builder.newScan().plan())) {
            reader.forEachRemaining(row -> rows.add(plain(row, table.rowType().getFields())));
        }
        return found;
    }

    /** The first column of the rows that each of the "filters" finds, pushed down and then asked of every row. */
    private JsonNode ask(FileStoreTable table, JsonNode request) throws Exception {
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode wanted : request.get("filters")) {
            ReadBuilder builder = table.newReadBuilder().withFilter(filter(table, wanted));
            ArrayNode found = answers.addArray();
            try (IOManager disk = IOManager.create(System.getProperty("java.io.tmpdir"));
                    RecordReader<InternalRow> reader =
                            builder.newRead().executeFilter().withIOManager(disk).createReader(builder.newScan().plan())) {
                reader.forEachRemaining(row -> found.add(row.getLong(0)));
            }
        }
        return answers;
    }

    private Predicate filter(FileStoreTable table, JsonNode wanted) {
        PredicateBuilder build = new PredicateBuilder(table.rowType());
        int at = table.rowType().getFieldIndex(wanted.get(0).asText());
        Object value = wanted.size() < 3 ? null : typed(wanted.get(2), table.rowType().getTypeAt(at));
        switch (wanted.get(1).asText()) {
            case "=":
                return build.equal(at, value);
            case "<>":
                return build.notEqual(at, value);
            case "<":
                return build.lessThan(at, value);
            case "<=":
                return build.lessOrEqual(at, value);
            case ">":
                return build.greaterThan(at, value);
            case ">=":
                return build.greaterOrEqual(at, value);
            case "null":
                return build.isNull(at);
            case "not null":
                return build.isNotNull(at);
            default:
                throw new IllegalArgumentException("no such filter: " + wanted);
        }
    }

    /** Of each live file the statistics of its value columns: smallest, largest, number of nulls. */
    private JsonNode stats(FileStoreTable table) {
        ArrayNode found = JSON.createArrayNode();
        for (ManifestEntry entry : table.store().newScan().plan().files()) {
            DataFileMeta file = entry.file();
            List<String> names = file.valueStatsCols() == null ? table.rowType().getFieldNames() : file.valueStatsCols();
            ObjectNode one = found.addObject();
            for (int at = 0; at < names.size(); at++) {
                DataType type = table.rowType().getField(names.get(at)).type();
                ArrayNode column = one.putArray(names.get(at));
                for (InternalRow row : List.of(file.valueStats().minValues(), file.valueStats().maxValues())) {
                    Object value = InternalRow.createFieldGetter(type, at).getFieldOrNull(row);
                    column.add(value == null ? null : plain(value, type));
                }
                column.add(file.valueStats().nullCounts().isNullAt(at) ? -1 : file.valueStats().nullCounts().getLong(at));
            }
        }
        return found;
    }

    private ArrayNode plain(InternalRow row, List<DataField> fields) {
        ArrayNode values = JSON.createArrayNode();
        for (int at = 0; at < fields.size(); at++) {
            DataType type = fields.get(at).type();
            Object value = InternalRow.createFieldGetter(type, at).getFieldOrNull(row);
            values.add(value == null ? null : plain(value, type));
        }
        return values;
    }

    private JsonNode plain(Object value, DataType type) {
        switch (type.getTypeRoot()) {
            case DATE:
                return JSON.getNodeFactory().textNode(LocalDate.ofEpochDay((Integer) value).toString());
            case TIME_WITHOUT_TIME_ZONE:
                return JSON.getNodeFactory().textNode(text(LocalTime.ofNanoOfDay((Integer) value * 1_000_000L)));
            case FLOAT:
            case DOUBLE:
                return JSON.createObjectNode().put("double", Double.toString(((Number) value).doubleValue()));
            case DECIMAL:
                return JSON.getNodeFactory().textNode(((Decimal) value).toBigDecimal().toPlainString());
            case CHAR:
            case VARCHAR:
                return JSON.getNodeFactory().textNode(value.toString());
            case BINARY:
            case VARBINARY:
                return JSON.getNodeFactory().textNode(HexFormat.of().formatHex((byte[]) value));
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                Timestamp at = (Timestamp) value;
                Instant instant = Instant.ofEpochMilli(at.getMillisecond()).plusNanos(at.getNanoOfMillisecond());
                return JSON.getNodeFactory().textNode(text(instant));
            case ARRAY:
                return plain((InternalArray) value, ((ArrayType) type).getElementType());
            case MAP:
                return plain((InternalMap) value, (MapType) type);
            case ROW:
                return plainObject((InternalRow) value, (RowType) type);
            default:
                return JSON.valueToTree(value);
        }
    }

    private ArrayNode plain(InternalArray array, DataType type) {
        ArrayNode values = JSON.createArrayNode();
        InternalArray.ElementGetter getter = InternalArray.createElementGetter(type);
        for (int at = 0; at < array.size(); at++) {
            Object value = getter.getElementOrNull(array, at);
            values.add(value == null ? null : plain(value, type));
        }
        return values;
    }

    private ArrayNode plain(InternalMap map, MapType type) {
        ArrayNode keys = plain(map.keyArray(), type.getKeyType());
        ArrayNode values = plain(map.valueArray(), type.getValueType());
        ArrayNode pairs = JSON.createArrayNode();
        for (int at = 0; at < keys.size(); at++) {
            pairs.addArray().add(keys.get(at)).add(values.get(at));
        }
        return pairs;
    }

    private ObjectNode plainObject(InternalRow row, RowType type) {
        ArrayNode values = plain(row, type.getFields());
        ObjectNode object = JSON.createObjectNode();
        for (int at = 0; at < values.size(); at++) {
            object.set(type.getFieldNames().get(at), values.get(at));
        }
        return object;
    }

    private String text(Instant instant) {
        String seconds = Instant.ofEpochSecond(instant.getEpochSecond()).toString().replace("Z", "");
        String rest = instant.getNano() == 0 ? "" : String.format(".%09d", instant.getNano()).replaceFirst("0+$", "");
        return seconds + rest;
    }

    private String text(LocalTime time) {
        return time.format(DateTimeFormatter.ofPattern(time.getNano() == 0 ? "HH:mm:ss" : "HH:mm:ss.SSSSSS"));
    }

    private GenericRow row(FileStoreTable table, JsonNode values) {
        GenericRow row = new GenericRow(values.size());
        for (int at = 0; at < values.size(); at++) {
            JsonNode value = values.get(at);
            row.setField(at, value.isNull() ? null : typed(value, table.rowType().getTypeAt(at)));
        }
        return row;
    }

    private Object typed(JsonNode value, DataType type) {
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return value.asBoolean();
            case TINYINT:
                return (byte) value.asInt();
            case SMALLINT:
                return (short) value.asInt();
            case INTEGER:
                return value.asInt();
            case BIGINT:
                return value.asLong();
            case FLOAT:
                return (float) number(value.asText());
            case DOUBLE:
                return number(value.asText());
            case DECIMAL:
                DecimalType decimal = (DecimalType) type;
                return Decimal.fromBigDecimal(new BigDecimal(value.asText()), decimal.getPrecision(), decimal.getScale());
            case DATE:
                return (int) LocalDate.parse(value.asText()).toEpochDay();
            case TIME_WITHOUT_TIME_ZONE:
                return (int) (LocalTime.parse(value.asText()).toNanoOfDay() / 1_000_000);
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                Instant instant = LocalDateTime.parse(value.asText()).toInstant(ZoneOffset.UTC);
                return Timestamp.fromEpochMillis(instant.toEpochMilli(), instant.getNano() % 1_000_000);
            case BINARY:
            case VARBINARY:
                return HexFormat.of().parseHex(value.asText());
            case ROW:
                GenericRow inside = new GenericRow(value.size());
                for (int at = 0; at < value.size(); at++) {
                    DataType kind = ((RowType) type).getTypeAt(at);
                    inside.setField(at, value.get(at).isNull() ? null : typed(value.get(at), kind));
                }
                return inside;
            case ARRAY:
                Object[] elements = new Object[value.size()];
                for (int at = 0; at < elements.length; at++) {
                    DataType kind = ((ArrayType) type).getElementType();
                    elements[at] = value.get(at).isNull() ? null : typed(value.get(at), kind);
                }
                return new GenericArray(elements);
            default:
                return BinaryString.fromString(value.asText());
        }
    }

    /** Python writes the values that are no numbers otherwise than Java. */
    private double number(String text) {
        return Double.parseDouble(text.replace("inf", "Infinity").replace("nan", "NaN"));
    }

    private List<String> texts(JsonNode values) {
        List<String> texts = new ArrayList<>();
        values.forEach(value -> texts.add(value.asText()));
        return texts;
    }
}
