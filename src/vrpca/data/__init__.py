"""Where rows come from: sources hand out blocks of the data, a view maps them (centring, scaling, weights)."""
