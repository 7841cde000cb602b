// Package encryption encrypts objects in the store, as an EncryptionConfiguration says.
//
// Guarantees:
//
//   - The stored bytes have kube-apiserver's format ("k8s:enc:aescbc:v1:KEY:…"). With the same configuration each can
//     read what the other has written.
//   - The first provider of a resource encrypts; all of them can decrypt. A value that was written by another provider
//     or an older key is stale: any update writes it again, even one that changes nothing.
//   - A value that cannot be decrypted affects only its own object.
//   - A changed configuration is used within seconds. If it is invalid, the previous one stays in use.
//
// Providers that support it (aesgcm and kms) authenticate the key of the store together with the value, so that the
// value of one object cannot be moved to another.
package encryption
