// Package past has the versions in which old servers have stored built-in kinds, and which nobody serves any more. Their
// objects stay in a store until something writes them again, for years if nothing does.
//
// What is guaranteed: an object that was stored in any version that the scheme of Kubernetes 1.37 has is read as
// kube-apiserver 1.37 reads it, with the defaults of the version that it was stored in. Nothing is written in these
// versions.
package past
