// Package replicaset keeps as many pods of one template running as each replica
// set asks for.
//
// What is guaranteed, from whatever state and wherever an earlier pass was cut off:
//
//   - Exact: once the cluster rests, a replica set has as many active pods as it
//     asks for. The loop never acts on a cache that does not show its own writes, so it
//     neither creates nor deletes twice.
//   - Owned: it counts, adopts and deletes only pods that match its selector, and
//     lets go of those that no longer match. Nothing that has another controller is touched.
//   - Gentle: pods go in the order of least loss; creation starts slowly where it
//     fails, so that a quota or a webhook that refuses is not stormed.
//   - Truthful: the status tells what the cache showed, never what a pass hoped for.
//
// What may not be assumed: that each change of a pod brings a write. Changes of
// a large set's pods are gathered for up to a tenth of a second.
//
// Other kinds that do the same can be kept by the same loop: see [Kind].
package replicaset
