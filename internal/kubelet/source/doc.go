// Package source provides the pods of a node: from a file or directory, a URL, and the API server.
//
// Guarantees:
//
//   - Complete: a source always passes on the complete set of its pods, so a lost or repeated message does not matter.
//   - Careful: a source that fails, or has not reported yet, never removes a pod.
//   - Unique: if two sources want pods of the same name, the first one keeps it.
//   - Merged: Config turns complete sets into additions, updates, removals and reconciliations, in one stream.
package source
