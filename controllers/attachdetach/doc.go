// Package attachdetach asks drivers to attach volumes to the nodes whose pods use them, and to detach them afterwards.
//
// What is guaranteed: for each pod that has a node and has not ended, each volume of its claims that a CSI driver has to attach has a
// VolumeAttachment, named as Kubernetes names it. A volume that may be on one node only is not asked for on a second one as long as the first has it; an event
// tells so. An attachment goes when no pod of its node uses the volume and the node says that it does not use it either, or has gone, or is
// marked out of service, or has not been ready for six minutes. A node's status.volumesAttached lists what is attached and wanted, and loses a
// volume before its attachment goes.
//
// What may not be assumed: that volumes without a CSI driver are attached by anybody.
package attachdetach
