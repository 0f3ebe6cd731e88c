"""What the Java processes of tests are started with."""

# The second compiler of Java earns nothing in so short a life, and takes half of the time. Without
# it Java has room for a fifth of the compiled code, which a few tests fill: from there on it throws
# away and compiles anew. What the tests' small tables leave behind dies young, and one thread is
# enough to clean up after them.
SHORT_LIVED = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -XX:NewRatio=1"
)

# Where the settings of a session are not what is tested. Hadoop's usual disk starts a process for
# each file and directory, to set its mode, and puts a file with checksums beside each.
QUICK = {
    "spark.driver.extraJavaOptions": SHORT_LIVED,
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}
