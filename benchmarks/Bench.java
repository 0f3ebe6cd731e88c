import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.lang.ref.Reference;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * The timers of the JVM at the work that bench_timer.py gives to those of Python.
 *
 * <p>{@code java -cp .:netty-common.jar Bench KIND PEER COUNT WARM [EDGE...]} prints the figures
 * as one line of JSON. Before what is measured come WARM rounds of the same work; EDGE are those of
 * the histogram of stalls. Where Java brings no compiler, Janino compiles this file: hence neither
 * lambdas nor {@code var}.
 *
 * <p>Costs are CPU nanoseconds of the two threads that work, the caller's and the timer's. What the
 * collector and the compiler do in threads of their own is not counted.
 */
public final class Bench {
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
  private static final int WARM_ROUND = 100000;
  private static final int LEAST_WORK = 50000; // timers: below, rounds are added up
  private static final int FULL_SPAN = 10000;
  private static final long TICK_MS = 100; // Netty's default, for which it is made

  /** What is measured: as Peer in peers.py. */
  private interface Peer {
    Object schedule(Task task, long nanos);

    void cancel(Object handle);

    void close();
  }

  /** A callback that counts; only the timer's thread touches the counts. */
  private static class Task implements Runnable, TimerTask {
    final CountDownLatch ended = new CountDownLatch(1);
    volatile long worker;
    int left;

    Task(int count) {
      left = count;
    }

    public void run() {
      if (--left == 0) {
        worker = Thread.currentThread().getId();
        ended.countDown();
      }
    }

    public void run(Timeout timeout) {
      run();
    }
  }

  /** Keeps the timer's thread from all else until it is let go. */
  private static final class Gate extends Task {
    final CountDownLatch open = new CountDownLatch(1);

    Gate() {
      super(1);
    }

    public void run() {
      super.run();
      try {
        open.await();
      } catch (InterruptedException error) {
        throw new IllegalStateException(error);
      }
    }
  }

  /** How late it was called, in milliseconds. */
  private static final class Late extends Task {
    final long due;
    final double[] lateness;
    final int number;
    final Task all;

    Late(long due, double[] lateness, int number, Task all) {
      super(1);
      this.due = due;
      this.lateness = lateness;
      this.number = number;
      this.all = all;
    }

    public void run() {
      lateness[number] = (System.nanoTime() - due) / 1e6;
      all.run();
    }
  }

  private static final class Jdk implements Peer {
    final ScheduledThreadPoolExecutor executor = new ScheduledThreadPoolExecutor(1);

    Jdk() {
      executor.setRemoveOnCancelPolicy(true);
    }

    public Object schedule(Task task, long nanos) {
      return executor.schedule((Runnable) task, nanos, TimeUnit.NANOSECONDS);
    }

    public void cancel(Object handle) {
      ((Future) handle).cancel(false);
    }

    public void close() {
      executor.shutdownNow();
    }
  }

  private static final class Netty implements Peer {
    final HashedWheelTimer timer;

    Netty(long tickMs) {
      timer = new HashedWheelTimer(tickMs, TimeUnit.MILLISECONDS);
    }

    public Object schedule(Task task, long nanos) {
      return timer.newTimeout(task, nanos, TimeUnit.NANOSECONDS);
    }

    public void cancel(Object handle) {
      ((Timeout) handle).cancel();
    }

    public void close() {
      timer.stop();
    }
  }

  private static Peer peer(String name, long tickMs) {
    return name.equals("netty") ? (Peer) new Netty(tickMs) : (Peer) new Jdk();
  }

  private static long[] delays(int count, double least, double most) {
    Random chance = new Random(count);
    long[] delays = new long[count];
    for (int i = 0; i < count; i++) {
      delays[i] = (long) (1e9 * (least + (most - least) * chance.nextDouble()));
    }
    return delays;
  }

  private static long[] soon(int count) {
    return delays(count, 0.001, span(count));
  }

  /** Seconds over which timers come due: a second for FULL_SPAN of them or more. */
  private static double span(int count) {
    return 0.001 + Math.min(1.0, (double) count / FULL_SPAN);
  }

  /** Waits until the timer's thread has done what was asked of it. Returns that thread's id. */
  private static long settle(Peer peer) throws InterruptedException {
    Task last = new Task(1);
    peer.schedule(last, 0);
    last.ended.await();
    return last.worker;
  }

  private static long cpu(long worker) {
    return THREADS.getCurrentThreadCpuTime() + THREADS.getThreadCpuTime(worker);
  }

  private static long memory() {
    System.gc();
    return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
  }

  private static double[] fillOnce(String name, int count) throws InterruptedException {
    long[] delays = delays(count, 60, 120);
    Object[] handles = new Object[count];
    Task task = new Task(count + 1);
    Peer peer = peer(name, TICK_MS);
    long worker = settle(peer);
    long weight = memory();
    long start = cpu(worker);
    for (int i = 0; i < count; i++) {
      handles[i] = peer.schedule(task, delays[i]);
    }
    settle(peer);
    double scheduled = cpu(worker) - start;
    weight = memory() - weight;
    Reference.reachabilityFence(delays); // or they might be collected, and our own weight with them
    shuffle(handles);
    start = cpu(worker);
    for (int i = 0; i < count; i++) {
      peer.cancel(handles[i]);
    }
    settle(peer);
    double cancelled = cpu(worker) - start;
    peer.close();
    return new double[] {scheduled / count, cancelled / count, (double) weight / count};
  }

  private static void shuffle(Object[] handles) {
    Random chance = new Random(handles.length);
    for (int i = handles.length - 1; i > 0; i--) {
      int other = chance.nextInt(i + 1);
      Object kept = handles[i];
      handles[i] = handles[other];
      handles[other] = kept;
    }
  }

  private static double[] drainOnce(String name, int count) throws InterruptedException {
    long[] delays = soon(count);
    Task task = new Task(count);
    Gate gate = new Gate();
    Peer peer = due(name, delays, task, gate);
    long worker = gate.worker;
    long start = cpu(worker);
    gate.open.countDown();
    task.ended.await();
    double drained = cpu(worker) - start;
    peer.close();
    return new double[] {drained / count};
  }

  /** A peer whose timers are all due, behind the gate. */
  private static Peer due(String name, long[] delays, Task task, Gate gate)
      throws InterruptedException {
    Peer peer = peer(name, TICK_MS);
    peer.schedule(gate, 0);
    gate.ended.await();
    for (int i = 0; i < delays.length; i++) {
      peer.schedule(task, delays[i]);
    }
    Thread.sleep((long) (1000 * span(delays.length)) + 100);
    return peer;
  }

  private static double[] once(String kind, String name, int count) throws InterruptedException {
    return kind.equals("fill") ? fillOnce(name, count) : drainOnce(name, count);
  }

  private static void warm(String kind, String name, int count, int rounds)
      throws InterruptedException {
    for (int i = 0; i < rounds; i++) {
      once(kind, name, Math.min(count, WARM_ROUND));
    }
  }

  private static String costs(String kind, String name, int count, int warm)
      throws InterruptedException {
    warm(kind, name, count, warm);
    int rounds = Math.max(1, Math.min(warm, LEAST_WORK / count));
    double[] sums = once(kind, name, count);
    for (int i = 1; i < rounds; i++) {
      double[] more = once(kind, name, count);
      for (int j = 0; j < sums.length; j++) {
        sums[j] += more[j];
      }
    }
    String[] names = kind.equals("fill") ? new String[] {"schedule", "cancel", "bytes"}
        : new String[] {"drain"};
    StringBuilder line = new StringBuilder();
    for (int j = 0; j < names.length; j++) {
      line.append(", \"").append(names[j]).append("\": ").append(sums[j] / rounds);
    }
    return "{" + line.substring(2) + "}";
  }

  /** One timer a millisecond. Netty gets ticks of 1 ms here, or it would be its tick that is told. */
  private static String lateness(String name, int count) throws InterruptedException {
    Peer peer = peer(name, 1);
    settle(peer);
    double[] lateness = new double[count];
    Task all = new Task(count);
    for (int i = 0; i < count; i++) {
      long delay = 500000000L + i * 1000000L;
      peer.schedule(new Late(System.nanoTime() + delay, lateness, i, all), delay);
    }
    all.ended.await();
    peer.close();
    return "{\"late\": " + Arrays.toString(lateness) + "}";
  }

  /** Schedules while {@code count} timers drain; how long each call took, in milliseconds. */
  private static String stall(String name, int count, int warm, double[] edges)
      throws InterruptedException {
    warm("fill", name, count, warm);
    Task task = new Task(count);
    Task noop = new Task(0);
    Gate gate = new Gate();
    Peer peer = due(name, soon(count), task, gate);
    int[] calls = new int[edges.length + 1];
    double longest = 0;
    gate.open.countDown();
    do {
      long start = System.nanoTime();
      peer.schedule(noop, 60000000000L);
      double took = (System.nanoTime() - start) / 1e6;
      longest = Math.max(longest, took);
      int place = Arrays.binarySearch(edges, took);
      calls[place < 0 ? -place - 1 : place]++;
    } while (task.ended.getCount() > 0);
    peer.close();
    return "{\"longest\": " + longest + ", \"calls\": " + Arrays.toString(calls) + "}";
  }

  public static void main(String[] arguments) throws InterruptedException {
    String kind = arguments[0];
    String name = arguments[1];
    int count = Integer.parseInt(arguments[2]);
    int warm = Integer.parseInt(arguments[3]);
    if (kind.equals("lateness")) {
      System.out.println(lateness(name, count));
    } else if (kind.equals("stall")) {
      double[] edges = new double[arguments.length - 4];
      for (int i = 0; i < edges.length; i++) {
        edges[i] = Double.parseDouble(arguments[i + 4]);
      }
      System.out.println(stall(name, count, warm, edges));
    } else {
      System.out.println(costs(kind, name, count, warm));
    }
  }
}
