"""Settings of the Java processes of tests."""

# In processes this short, Java's second compiler takes half of the time and saves none. Without it
# Java keeps by default only a fifth of the compiled code, and would soon discard and recompile;
# hence the larger cache. The garbage of small tables is short-lived, and one thread collects it.
SHORT_LIVED_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -XX:NewRatio=1"
)

# For tests that do not test the settings of a session. Hadoop's default local file system starts a
# process for each file and directory, to set its mode, and writes a file of checksums beside each.
QUICK_CONF = {
    "spark.driver.extraJavaOptions": SHORT_LIVED_OPTIONS,
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}
