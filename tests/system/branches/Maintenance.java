import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.IcebergBuild;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.jdbc.JdbcCatalog;

/** What engines do to a table's files by Iceberg's own library: one command a line, and one answer. */
public final class Maintenance {
  private Maintenance() {}

  public static void main(String[] args) throws Exception {
    System.err.close();
    System.out.println(IcebergBuild.version());
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      String[] words = line.split(" ");
      // A connection for each command: some releases leave a read transaction open, which locks out the others.
      try (JdbcCatalog catalog = new JdbcCatalog()) {
        catalog.setConf(new Configuration());
        catalog.initialize(
            "lake",
            new HashMap<>(Map.of("uri", args[0], "warehouse", args[1], "jdbc.schema-version", "V1")));
        run(catalog.loadTable(TableIdentifier.parse(words[1])), words);
        System.out.println("done");
      } catch (RuntimeException error) {
        System.out.println("failed " + String.valueOf(error).replace('\n', ' '));
      }
    }
  }

  private static void run(Table table, String[] words) throws Exception {
    switch (words[0]) {
      case "expire" -> table.expireSnapshots().expireOlderThan(Long.parseLong(words[2])).retainLast(1).commit();
      case "expire_one" -> table.expireSnapshots().expireSnapshotId(Long.parseLong(words[2])).commit();
      case "rewrite_manifests" -> table.rewriteManifests().clusterBy(file -> "all").commit();
      case "compact" -> compact(table);
      case "drop_branch" -> table.manageSnapshots().removeBranch(words[2]).commit();
      case "lease_by_engine" -> table.manageSnapshots().setMaxRefAgeMs(words[2], 1).commit();
      case "cherrypick" -> table.manageSnapshots().cherrypick(Long.parseLong(words[2])).commit();
      default -> throw new IllegalArgumentException(words[0]);
    }
  }

  /** Replace each data file without deletes by a copy: the rows stay, and the old files are no longer in the table. */
  private static void compact(Table table) throws Exception {
    RewriteFiles rewrite = table.newRewrite();
    List<DataFile> old = new ArrayList<>();
    try (CloseableIterable<FileScanTask> tasks = table.newScan().planFiles()) {
      for (FileScanTask task : tasks) {
        List<DeleteFile> deletes = task.deletes();
        if (deletes.isEmpty()) {
          old.add(task.file().copy());
        }
      }
    }
    for (DataFile file : old) {
      String location = String.valueOf(file.path());
      String copy = location.replaceFirst("[^/]*$", "c" + System.nanoTime() + ".parquet");
      Files.copy(Path.of(location.replaceFirst("^file:/*", "/")), Path.of(copy.replaceFirst("^file:/*", "/")));
      rewrite.deleteFile(file);
      rewrite.addFile(DataFiles.builder(table.spec()).copy(file).withPath(copy).build());
    }
    if (!old.isEmpty()) {
      rewrite.commit();
    }
  }
}
