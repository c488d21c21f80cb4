import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataOperations;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.util.SnapshotUtil;

/**
 * The way that Netflix published, on Iceberg's Java API: walk the ancestors of the head down to the last committed snapshot, keep
 * the appends, make a table of the source's schema, and append to it each file that those snapshots added.
 *
 * Reads commands from standard input, one run each, so that whoever compares can take turns:
 *     database warehouse source target since [property=value ...]
 */
public class PublishedCode {
    private static final com.sun.management.OperatingSystemMXBean PROCESS =
            (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    public static void main(String[] args) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String command = commands.readLine(); command != null; command = commands.readLine()) {
            String[] words = command.split(" ");
            try (JdbcCatalog catalog = open(words)) {
                System.out.println("RESULT " + run(catalog, words[2], words[3], Long.parseLong(words[4])));
            }
            // The garbage of one run is not to be paid for by the next.
            System.gc();
            System.out.println("READY");
        }
    }

    private static JdbcCatalog open(String[] words) {
        Map<String, String> properties = new HashMap<>(Map.of(
                "uri", "jdbc:sqlite:" + words[0], "warehouse", words[1], "jdbc.schema-version", "V1"));
        for (int i = 5; i < words.length; i++) {
            String[] pair = words[i].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        JdbcCatalog catalog = new JdbcCatalog();
        catalog.setConf(new Configuration());
        catalog.initialize("lake", properties);
        return catalog;
    }

    private static String run(JdbcCatalog catalog, String source, String target, long since) throws IOException {
        TableIdentifier into = TableIdentifier.parse(target);
        long[] before = moved();
        long cpu = PROCESS.getProcessCpuTime();
        long wall = System.nanoTime();
        Table made = capture(catalog, TableIdentifier.parse(source), into, since);
        wall = System.nanoTime() - wall;
        cpu = PROCESS.getProcessCpuTime() - cpu;
        long[] after = moved();
        Map<String, String> summary = made.currentSnapshot().summary();
        catalog.dropTable(into, false);
        if (made.location().startsWith("file:")) {
            delete(Path.of(made.location().replaceFirst("^file:/*", "/")));
        }
        return "{\"wall_seconds\": " + wall / 1e9 + ", \"cpu_seconds\": " + cpu / 1e9 + ", \"peak_bytes\": " + peak()
                + ", \"read_bytes\": " + (after[0] - before[0]) + ", \"written_bytes\": " + (after[1] - before[1])
                + ", \"files\": " + summary.get("total-data-files") + ", \"records\": " + summary.get("total-records")
                + "}";
    }

    /** What is measured. */
    private static Table capture(JdbcCatalog catalog, TableIdentifier from, TableIdentifier into, long since) {
        Table source = catalog.loadTable(from);
        Table target = catalog.createTable(into, source.schema(), source.spec());
        AppendFiles append = target.newAppend();
        long head = source.currentSnapshot().snapshotId();
        for (Snapshot snapshot : SnapshotUtil.ancestorsBetween(source, head, since)) {
            if (DataOperations.APPEND.equals(snapshot.operation())) {
                for (DataFile file : snapshot.addedDataFiles(source.io())) {
                    append.appendFile(file);
                }
            }
        }
        append.commit();
        return target;
    }

    private static long[] moved() throws IOException {
        Path counters = Path.of("/proc/self/io");
        if (!Files.exists(counters)) {
            return new long[] {0, 0};
        }
        long[] found = new long[2];
        for (String line : Files.readAllLines(counters)) {
            if (line.startsWith("rchar: ")) {
                found[0] = Long.parseLong(line.substring(7));
            } else if (line.startsWith("wchar: ")) {
                found[1] = Long.parseLong(line.substring(7));
            }
        }
        return found;
    }

    private static long peak() throws IOException {
        Path status = Path.of("/proc/self/status");
        if (!Files.exists(status)) {
            return 0;
        }
        for (String line : Files.readAllLines(status)) {
            if (line.startsWith("VmHWM:")) {
                return Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024;
            }
        }
        return 0;
    }

    private static void delete(Path folder) throws IOException {
        try (Stream<Path> found = Files.walk(folder)) {
            for (Path path : (Iterable<Path>) found.sorted(Comparator.reverseOrder())::iterator) {
                Files.delete(path);
            }
        }
    }
}
