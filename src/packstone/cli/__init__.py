"""The command line: parse, call the service, show. No decisions are made here."""
