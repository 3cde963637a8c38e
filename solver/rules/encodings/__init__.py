"""The long encoding faces, one module for each rule. Only the rule's ``encode`` enters it. They may import what rules may."""
