// Package replicaset maintains the number of pods that ReplicaSets ask for.
//
// Guarantees, from any state and wherever an earlier sync has stopped:
//
//   - Exact: once nothing changes, a ReplicaSet has as many active pods as it asks
//     for. The loop never acts on a cache that does not show its own writes, so it
//     neither creates nor deletes twice.
//   - Owned: it counts, adopts and deletes only pods that match its selector, and
//     releases those that no longer match. Pods of another controller are not touched.
//   - Gentle: the least useful pods are deleted first. If creation fails, few pods are
//     tried at first, so that a quota or webhook that rejects them is not flooded.
//   - Truthful: the status contains what the cache has shown, not what a sync expects.
//
// Not every change of a pod causes a write: changes of a large set's pods are combined for up to a tenth of a second.
//
// The loop can also handle other kinds: see [Kind].
package replicaset
