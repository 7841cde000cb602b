// Package encryption keeps objects encrypted in the store, as an EncryptionConfiguration says.
//
// What is guaranteed:
//
//   - The stored bytes are those of kube-apiserver ("k8s:enc:aescbc:v1:KEY:…"), which can read them with the same configuration,
//     as this package reads its.
//   - The first provider of a resource writes; all of them read. What another than the first has written, or an older key, is stale:
//     any update writes it anew, also one that changes nothing.
//   - A value that nobody can read harms that object only.
//   - A configuration that changes is used within seconds. One that cannot be used leaves the one before in use.
//
// The key of the store is authenticated with a value where the provider can do that (aesgcm and kms): one object's value cannot take
// another's place.
package encryption
