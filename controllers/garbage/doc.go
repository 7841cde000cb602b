// Package garbage deletes objects whose owners are gone.
//
// It follows the metadata of every kind that discovery shows and that can be
// listed, watched and deleted, also of kinds that appear later, and keeps the graph of
// who owns whom.
//
// What is guaranteed:
//
//   - Safe: an object is deleted only if each of its owners was seen absent, or
//     waiting for its dependents, by asking the server for the owner's own name and
//     uid; what the caches miss can delay a deletion, never cause one. The delete names the
//     version of the object in which those owners were read, so an owner added in between
//     saves it.
//   - Complete: once the cluster rests, nothing is left of which all owners are gone.
//   - Foreground: an object deleted in the foreground stays until the dependents that
//     block it are gone; cycles of such objects are broken up.
//   - Orphaning: the dependents of an object deleted with the orphan policy lose the
//     reference to it, and stay.
//
// What may not be assumed: that an owner reference across namespaces works. It
// counts as absent, and an event on the dependent says so. A reference to a kind that
// discovery does not show keeps the dependent.
package garbage
