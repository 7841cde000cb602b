// Package disruption computes how many pods of each PodDisruptionBudget may be evicted now.
//
// Guarantees: an eviction that the API has granted counts against the budget until its pod is gone, or for two minutes
// if it is not deleted. A budget that cannot be computed allows nothing, and says why.
package disruption
