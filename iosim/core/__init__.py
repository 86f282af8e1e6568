"""What everything else speaks of: problems, masks, units, types, counts, events and GPUs. Nothing here runs."""
