import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.IHMSHandler;
import org.apache.hadoop.hive.metastore.MetaStorePreEventListener;
import org.apache.hadoop.hive.metastore.RetryingHMSHandler;
import org.apache.hadoop.hive.metastore.api.MetaException;
import org.apache.hadoop.hive.metastore.api.ThriftHiveMetastore;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;
import org.apache.hadoop.hive.metastore.events.PreEventContext;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;

/** Hive's metastore on loopback: its own main() listens on every interface of the machine. */
public class Metastore {
  /** While a file of this name lies in the folder, nobody may create tables. */
  private static final String READ_ONLY = "read-only";

  public static void main(String[] folder) throws Exception {
    // Java knows the classes of a program that it compiled itself by this loader alone.
    Thread.currentThread().setContextClassLoader(Metastore.class.getClassLoader());
    Configuration conf = MetastoreConf.newMetastoreConf();
    conf.set("javax.jdo.option.ConnectionURL", "jdbc:derby:" + folder[0] + "/derby;create=true");
    conf.set("metastore.warehouse.dir", "file://" + folder[0] + "/warehouse");
    conf.set("datanucleus.schema.autoCreateAll", "true");
    conf.set("metastore.schema.verification", "false");
    conf.set("metastore.expression.proxy", "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy");
    // The default names a class of Hive's query engine as well.
    conf.set("metastore.task.threads.always", "org.apache.hadoop.hive.metastore.events.EventCleanerTask");
    conf.set("metastore.pre.event.listeners", Authorization.class.getName());
    conf.set("ips.read.only", folder[0] + "/" + READ_ONLY);
    conf.set("metastore.event.db.notification.api.auth", "false");
    TxnDbUtil.setConfValues(conf);
    TxnDbUtil.prepDb(conf); // tables for locks, which nothing else makes
    HiveMetaStore.HMSHandler handler = new HiveMetaStore.HMSHandler("metastore", conf, false);
    IHMSHandler retrying = RetryingHMSHandler.getProxy(conf, handler, false);
    TServerSocket socket = new TServerSocket(new InetSocketAddress("127.0.0.1", 0));
    System.out.println("Listening on 127.0.0.1:" + socket.getServerSocket().getLocalPort());
    new TThreadPoolServer(
            new TThreadPoolServer.Args(socket).processor(new ThriftHiveMetastore.Processor<>(retrying)))
        .serve();
  }

  /** Denies as Hive's AuthorizationPreEventListener does, which needs Hive's whole query engine. */
  public static class Authorization extends MetaStorePreEventListener {
    public Authorization(Configuration conf) {
      super(conf);
    }

    @Override
    public void onEvent(PreEventContext event) throws MetaException {
      if (event.getEventType() == PreEventContext.PreEventType.CREATE_TABLE
          && Files.exists(Path.of(getConf().get("ips.read.only")))) {
        throw new MetaException("Permission denied: user=reader, access=CREATE");
      }
    }
  }
}
