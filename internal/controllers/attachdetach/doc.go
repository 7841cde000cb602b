// Package attachdetach makes CSI drivers attach volumes to the nodes whose pods use them, and detach them afterwards.
//
// Guarantees: for each pod that has a node and has not ended, each volume of its claims that needs attaching has a
// VolumeAttachment with Kubernetes' name. A volume that may be on one node only is not attached to a second one while
// the first has it; an event says so. An attachment is deleted when no pod of its node uses the volume and the node
// does not report it in use, is gone, is marked out of service, or has not been ready for six minutes. A node's
// status.volumesAttached lists what is attached and needed, and a volume is removed from it before its attachment is
// deleted.
//
// Volumes without a CSI driver are not attached.
package attachdetach
