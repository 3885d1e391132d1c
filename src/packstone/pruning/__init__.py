"""Pure decisions about which parts of a table a filter can match."""
