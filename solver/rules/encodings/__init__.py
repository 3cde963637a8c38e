"""The encoding faces that are long: one module for each rule, entered by the rule's ``encode`` alone. They import what rules may."""
