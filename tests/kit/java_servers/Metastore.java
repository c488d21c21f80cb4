import java.net.InetSocketAddress;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.IHMSHandler;
import org.apache.hadoop.hive.metastore.RetryingHMSHandler;
import org.apache.hadoop.hive.metastore.api.ThriftHiveMetastore;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;

/** Hive's metastore on loopback: its own main() listens on every interface of the machine. */
public class Metastore {
  public static void main(String[] folder) throws Exception {
    Configuration conf = MetastoreConf.newMetastoreConf();
    conf.set("javax.jdo.option.ConnectionURL", "jdbc:derby:" + folder[0] + "/derby;create=true");
    conf.set("metastore.warehouse.dir", "file://" + folder[0] + "/warehouse");
    conf.set("datanucleus.schema.autoCreateAll", "true");
    conf.set("metastore.schema.verification", "false");
    conf.set("metastore.expression.proxy", "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy");
    // The default names a class of Hive's query engine as well.
    conf.set("metastore.task.threads.always", "org.apache.hadoop.hive.metastore.events.EventCleanerTask");
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
}
