// Package disruption says in the status of each PodDisruptionBudget how many of its pods may be evicted now.
//
// What is guaranteed: an eviction that the API has granted counts against the budget until its pod is gone, or for two minutes if it
// does not go; a budget that cannot be worked out allows nothing, and says why.
package disruption
