"""What recorded facts say about an outage: pure functions over slices and changes, which read no store themselves."""
