// Package planes runs many control planes in one process. Each is a whole cluster with its own objects, keys, users,
// loops and nodes, and is reached below /clusters/NAME of the server that has it, its host. What there is, objects of the
// kind ControlPlane say, in the host.
//
//   - Apart. A plane shares nothing with another but the process and the port. Who is somebody in the host, or in another
//     plane, is nobody in it.
//   - Asleep. A plane that nobody asks for a while, and in which nothing is due, is closed: what is left of it in memory is
//     a row. A request of somebody whom it knows starts it again, and so does the time at which one of its loops has
//     something to do. Nobody else does.
//   - Gone. When its object is deleted, the plane is closed, and its directory is removed before its name is free.
//
// A plane of a host without a data directory is in memory, and does not sleep: it would forget everything.
package planes
