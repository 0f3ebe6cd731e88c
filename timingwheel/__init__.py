"""When: a hierarchical timing wheel, after Kafka's."""
