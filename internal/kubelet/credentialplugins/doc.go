// Package credentialplugins asks a node's plugins for the credentials of image registries: programs with the protocol
// credentialprovider.kubelet.k8s.io/v1, which a CredentialProviderConfig lists.
//
// What is guaranteed: a plugin is started only for images that it is for, once at a time for the same question, and its
// answer is kept as long as it says. Credentials are ordered as Kubernetes' kubelet tries them. A plugin that fails
// hinders no pull: the image may need no credentials.
//
// What may not be assumed: that the configuration is read again while the kubelet runs.
package credentialplugins
