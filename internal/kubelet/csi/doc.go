// Package csi lets storage drivers that speak CSI give a node's pods their volumes.
//
// What is guaranteed: a driver that registers appears in the node's CSINode, with its limits and the labels of its
// topology; it disappears with its socket. A volume is attached (which others do), staged once for each node where the
// driver can do that, and published once for each pod; what was begun stands on disk before the driver is called, so
// that a kubelet that starts anew undoes it. A volume is unstaged when no pod of the node has it any more, and counts
// as used by the node until then. Nothing below a published path is removed before the driver has answered that it is
// not published.
//
// A pod waits until its volumes are not published any more, and not until they are unstaged: that may fail for long,
// and is tried again until a driver does it or another pod gets the volume.
//
// A volume of raw blocks is staged and published where Kubernetes has such volumes, below
// plugins/kubernetes.io/csi/volumeDevices: some drivers know these paths.
//
// What may not be assumed: that SELinux labels are given as mount options.
package csi
