"""The one loop of all families, and the verbs around it: plan, compact, verify, record, recover, restore, clean."""
