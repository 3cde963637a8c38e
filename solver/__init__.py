"""How placements are found: rules with both their faces, engines, bind order, explanation, and the independent checker."""
