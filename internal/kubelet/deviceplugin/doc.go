// Package deviceplugin gives containers the devices of device plugins (Kubernetes' device plugin API, v1beta1).
//
// Guarantees:
//
//   - Counted: the devices of a plugin are in the node's capacity, and the healthy ones in what pods may use. While a
//     plugin is away none of its devices is healthy. After five minutes its resource counts 0.
//   - Exclusive: no two pods have a device at the same time. Only containers that run one after the other, an init
//     container and those after it, use the same device.
//   - Kept: what a container was given is on disk before the container is made, so it has the same devices after a
//     crash and after a restart of the kubelet.
//   - Released: a device is free when the pod has ended and nothing of it is left in the runtime.
//
// What may not be assumed: that a plugin is asked once for a container (it is asked again if the kubelet ends before
// the answer is on disk), that devices are near each other (there is no topology manager), or that the file of this
// package is that of another kubelet.
package deviceplugin
