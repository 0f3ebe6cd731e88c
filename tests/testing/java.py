"""Settings of the Java processes of tests."""

import sys
from pathlib import Path

# In processes this short, Java's second compiler takes half of the time and saves none. Without it
# Java keeps by default only a fifth of the compiled code, and would soon discard and recompile;
# hence the larger cache. The garbage of small tables is short-lived, and one thread collects it.
SHORT_LIVED_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -XX:NewRatio=1"
)

# See `java_classes`. A Java that the archive is not of says so, unless its log is silent.
CLASSES = Path(sys.prefix) / "spark-classes.jsa"
if CLASSES.exists() and CLASSES.stat().st_size:
    SHORT_LIVED_OPTIONS += f" -XX:SharedArchiveFile={CLASSES} -Xlog:disable"

# For tests that do not test the settings of a session.
QUICK_CONF = {"spark.driver.extraJavaOptions": SHORT_LIVED_OPTIONS}
