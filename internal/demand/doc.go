// Package demand computes what a pod needs: amounts of resources, host ports, which nodes it accepts and which taints
// it tolerates.
//
// Every function reads only the pod that it is given. The scheduler, the kubelet, the quota admission plugin and the
// quota loop all use this package, so they get the same results.
//
// Amounts have two forms. [Resources] are plain integers, for comparing many pods with many nodes. A
// [corev1.ResourceList] keeps the quantities as the user has written them, for display. The same algorithm computes
// both.
package demand
