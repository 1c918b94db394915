import java.io.BufferedInputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.ByteBufferOutputStream;
import org.apache.kafka.common.utils.internals.CloseableIterator;

/**
 * Kafka's own record batches, for tests in another language. Commands and answers are framed as those of Oracle.java.
 *
 * Contents are an int32 size and the bytes, size -1 is null. A record is: offset, timestamp, key, value, n * (header's
 * key, value).
 *
 * <pre>
 * 'W' magic, codec, append time (int64, -1: the records' own), producer id int64, epoch int16, sequence int32,
 *     transactional byte, n * record                               -> the log of a batch
 * 'M' offset int64, producer id int64, type byte                   -> the log of a marker
 * 'F' log, now int64, retention int64, n * (offset int64)          -> the log without these records
 * 'R' log  -> n * (base offset, last offset, magic byte, codec byte, transactional byte, control byte, producer id,
 *             epoch int16, sequence int32, maximum timestamp, m * record)
 * </pre>
 */
public final class Batches {
    public static void main(String[] arguments) throws IOException {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        DataOutputStream out = new DataOutputStream(System.out);
        while (true) {
            byte[] command;
            try {
                command = in.readNBytes(in.readInt());
            } catch (EOFException end) {
                return;
            }
            ByteArrayOutputStream answer = new ByteArrayOutputStream(1 << 16);
            DataOutputStream writer = new DataOutputStream(answer);
            try {
                writer.writeByte(0);
                obey(new DataInputStream(new ByteArrayInputStream(command)), writer);
            } catch (Exception | LinkageError problem) {
                StringWriter trace = new StringWriter();
                problem.printStackTrace(new PrintWriter(trace));
                answer.reset();
                writer.writeByte(1);
                writeContent(writer, ByteBuffer.wrap(trace.toString().getBytes(StandardCharsets.UTF_8)));
            }
            out.writeInt(answer.size());
            answer.writeTo(out);
            out.flush();
        }
    }

    private static void obey(DataInputStream in, DataOutputStream out) throws Exception {
        char command = (char) in.readByte();
        switch (command) {
            case 'W' -> writeContent(out, write(in));
            case 'M' -> writeContent(out, marker(in.readLong(), in.readLong(), in.readByte()));
            case 'F' -> writeContent(out, filter(in));
            case 'R' -> read(log(in), out);
            default -> throw new IllegalArgumentException("no such command: " + command);
        }
    }

    private static ByteBuffer write(DataInputStream in) throws IOException {
        byte magic = in.readByte();
        CompressionType codec = CompressionType.forId(in.readByte());
        long appendTime = in.readLong();
        long producerId = in.readLong();
        short epoch = in.readShort();
        int sequence = in.readInt();
        boolean transactional = in.readByte() != 0;
        MemoryRecordsBuilder builder = null;
        for (int left = in.readInt(); left > 0; left--) {
            long offset = in.readLong();
            long timestamp = in.readLong();
            byte[] key = readContent(in);
            byte[] value = readContent(in);
            Header[] headers = new Header[in.readInt()];
            for (int number = 0; number < headers.length; number++) {
                headers[number] = new RecordHeader(new String(readContent(in), StandardCharsets.UTF_8), readContent(in));
            }
            if (builder == null) {
                builder = new MemoryRecordsBuilder(
                    new ByteBufferOutputStream(1 << 10), magic, Compression.of(codec).build(),
                    appendTime < 0 ? TimestampType.CREATE_TIME : TimestampType.LOG_APPEND_TIME, offset, appendTime,
                    producerId, epoch, sequence, transactional, false, 3, Integer.MAX_VALUE);
            }
            builder.appendWithOffset(offset, timestamp, key, value, headers);
        }
        return builder.build().buffer();
    }

    private static ByteBuffer marker(long offset, long producerId, byte type) {
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
            new ByteBufferOutputStream(1 << 10), RecordBatch.MAGIC_VALUE_V2, Compression.NONE,
            TimestampType.CREATE_TIME, offset, -1L, producerId, (short) 0, -1, true, true, 3, Integer.MAX_VALUE);
        builder.appendEndTxnMarker(1L, new EndTransactionMarker(ControlRecordType.fromTypeId(type), 5));
        return builder.build().buffer();
    }

    /** As the log cleaner does it. */
    private static ByteBuffer filter(DataInputStream in) throws Exception {
        MemoryRecords log = log(in);
        long now = in.readLong();
        long retention = in.readLong();
        Set<Long> without = new HashSet<>();
        for (int left = in.readInt(); left > 0; left--) {
            without.add(in.readLong());
        }
        MemoryRecords.RecordFilter filter = new MemoryRecords.RecordFilter(now, retention) {
            @Override
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                return new BatchRetentionResult(BatchRetention.RETAIN_EMPTY, false);
            }

            @Override
            protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                return !without.contains(record.offset());
            }
        };
        for (Method method : MemoryRecords.class.getMethods()) {
            if (method.getName().equals("filterTo")) { // Kafka 3 wants to know more
                Object[] wanted = new Object[method.getParameterCount()];
                for (int number = 0; number < wanted.length; number++) {
                    Class<?> type = method.getParameterTypes()[number];
                    wanted[number] =
                        type == ByteBuffer.class ? ByteBuffer.allocate(1 << 20)
                        : type == int.class ? Integer.valueOf(Integer.MAX_VALUE)
                        : type == TopicPartition.class ? new TopicPartition("t", 0)
                        : type == BufferSupplier.class ? BufferSupplier.create()
                        : filter;
                }
                ByteBuffer kept = ((MemoryRecords.FilterResult) method.invoke(log, wanted)).outputBuffer();
                kept.flip();
                return kept;
            }
        }
        throw new IllegalStateException("MemoryRecords has no filterTo");
    }

    private static void read(MemoryRecords log, DataOutputStream out) throws IOException {
        int batches = 0;
        for (RecordBatch ignored : log.batches()) {
            batches++;
        }
        out.writeInt(batches);
        for (RecordBatch batch : log.batches()) {
            batch.ensureValid();
            out.writeLong(batch.baseOffset());
            out.writeLong(batch.lastOffset());
            out.writeByte(batch.magic());
            out.writeByte(batch.compressionType().id);
            out.writeByte(batch.isTransactional() ? 1 : 0);
            out.writeByte(batch.isControlBatch() ? 1 : 0);
            out.writeLong(batch.producerId());
            out.writeShort(batch.producerEpoch());
            out.writeInt(batch.baseSequence());
            out.writeLong(batch.maxTimestamp());
            ByteArrayOutputStream records = new ByteArrayOutputStream();
            int count = 0;
            try (CloseableIterator<Record> iterator = batch.streamingIterator(BufferSupplier.NO_CACHING)) {
                for (; iterator.hasNext(); count++) {
                    Record record = iterator.next();
                    record.ensureValid();
                    write(record, new DataOutputStream(records));
                }
            }
            out.writeInt(count);
            records.writeTo(out);
        }
    }

    private static void write(Record record, DataOutputStream out) throws IOException {
        out.writeLong(record.offset());
        out.writeLong(record.timestamp());
        writeContent(out, record.key());
        writeContent(out, record.value());
        out.writeInt(record.headers().length);
        for (Header header : record.headers()) {
            writeContent(out, ByteBuffer.wrap(header.key().getBytes(StandardCharsets.UTF_8)));
            writeContent(out, header.value() == null ? null : ByteBuffer.wrap(header.value()));
        }
    }

    private static MemoryRecords log(DataInputStream in) throws IOException {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(readContent(in)));
    }

    private static byte[] readContent(DataInputStream in) throws IOException {
        int size = in.readInt();
        return size < 0 ? null : in.readNBytes(size);
    }

    private static void writeContent(DataOutputStream out, ByteBuffer content) throws IOException {
        if (content == null) {
            out.writeInt(-1);
            return;
        }
        byte[] bytes = new byte[content.remaining()];
        content.duplicate().get(bytes);
        out.writeInt(bytes.length);
        out.write(bytes);
    }
}
