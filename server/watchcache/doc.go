// Package watchcache keeps, for every kind, the latest state and a window of recent history, and serves both to any
// number of readers without asking the store.
//
// A Cache reads the store's log once, for all kinds. The reader of the log is the only writer, so there is one order
// and one revision that says how far everything is. What a Cursor, which is one watch, guarantees:
//
//   - Ordered: revisions of events never go down.
//   - Unique: no event comes twice.
//   - Reliable: no event between the start and the last event seen is left out. A cursor that can't keep this promise
//     ends with an error instead.
//   - Bookmarkable: after Cursor.Revision returned R, no event at or below R comes.
//   - Resumable: a new cursor from the revision of the last event seen (or from a bookmark) continues exactly, as long
//     as that revision is inside the window.
//   - Filterable: a cursor on a topic gets those events, and only those, whose object is or was part of the topic.
//
// What readers of state are guaranteed:
//
//   - A Snapshot never changes, shows exactly the state at its revision and costs O(1).
//   - After WaitFor(R) every snapshot and every cursor of every kind includes all changes up to R.
//   - After Fresh, they include every write that was acknowledged before the call.
//
// A slow cursor is felt by nobody: it is a pointer into a linked list of immutable events. Inside the window it is never
// cut, outside it ends with ErrExpired, and there it keeps nothing alive but the link it stands on. When the log was lost
// and can't be resumed, the cache reads the state again and every cursor ends with ErrRefilled, because what happened in
// between is not known.
//
// A caller may not assume that revisions of a kind are dense, that two kinds' snapshots taken one after the other have
// the same revision, or that a key's revisions only grow when the store was replaced by another one behind our back.
//
// Nothing is served before the first fill is done (ErrNotReady). While the store is away, snapshots and cursors go on
// working with what is there; only Fresh fails.
package watchcache
