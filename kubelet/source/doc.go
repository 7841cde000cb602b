// Package source is where a node's pods come from: a file or folder, a URL, and the API server.
//
// What is guaranteed:
//
//   - Full: whatever changed, a source hands on the complete set of the pods it wants, so that a message that is missed
//     or comes twice never matters.
//   - Careful: a source that fails, or has not been seen yet, never removes a pod.
//   - One name, one pod: of two sources that want pods of the same name the first keeps it.
//   - Merged: Config turns full sets into additions, updates, removals and reconciliations, in one stream.
package source
