// Package namespace empties namespaces that are being deleted, and lets them go.
//
// What is guaranteed:
//
//   - Complete: a namespace is let go only when no object of any namespaced kind
//     that discovery shows at that moment is left in it, each kind having been asked
//     for anew; if discovery fails for a group, the namespace waits.
//   - Ending: as long as whoever put finalizers on objects takes them off again, the
//     deletion ends; one kind that fails does not keep the others from being emptied.
//   - Ordered: pods go first, and nothing else is touched while one is left, since
//     what pods use must not vanish under them.
//   - Told: the conditions say what the namespace is waiting for.
package namespace
