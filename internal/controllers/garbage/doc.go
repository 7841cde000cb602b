// Package garbage deletes objects whose owners are gone.
//
// It watches the metadata of every kind that discovery shows and that can be listed, watched and deleted, including
// kinds that are added later, and maintains the graph of owners and dependents.
//
// Guarantees:
//
//   - Safe: an object is deleted only if the server itself has confirmed that each of its
//     owners, by name and UID, is absent or waits for its dependents. What the caches
//     miss can delay a deletion, but never cause one. The delete has the version of
//     the object in which those owners were read as a precondition, so an owner that was
//     added in between saves it.
//   - Complete: once nothing changes, no object is left of which all owners are gone.
//   - Foreground: an object that is deleted in the foreground stays until the dependents
//     that block it are gone; cycles of such objects are broken.
//   - Orphaning: the dependents of an object that is deleted with the orphan policy lose
//     the reference to it, and stay.
//
// An owner reference across namespaces does not work: the owner counts as absent, and an event on the dependent says
// so. A reference to a kind that discovery does not show keeps the dependent.
package garbage
