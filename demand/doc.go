// Package demand says what a pod asks for: amounts of resources, ports of its
// host, which nodes it accepts and which taints it tolerates.
//
// What it guarantees: every function reads the pod that it is given and nothing
// else. The scheduler, the kubelet, the quota admission and the quota loop all
// ask here, so what one of them has counted the others count too.
//
// Amounts come in two forms. [Resources] are plain integers, for those who
// compare many pods with many nodes. A [corev1.ResourceList] keeps the quantities
// as the user has written them, for those who show them. One algorithm makes both.
package demand
