// Package namespace deletes the content of namespaces that are being deleted, and then their finalizer.
//
// Guarantees:
//
//   - Complete: the finalizer is removed only when no object of any namespaced kind
//     that discovery shows at that moment is left; each kind is listed again for that.
//     If discovery fails for a group, the namespace waits.
//   - Ending: the deletion ends as soon as all finalizers of other controllers are removed;
//     one kind that fails does not stop the others from being deleted.
//   - Ordered: pods are deleted first, and nothing else is deleted while one is left,
//     because pods must not lose what they use.
//   - Told: the conditions say what the namespace is waiting for.
package namespace
