// Package chain asks authorizers in the order of an AuthorizationConfiguration, or of --authorization-mode.
//
// What is guaranteed: members of system:masters may do everything before anybody is asked. The file is followed: a
// changed one is used when all of it is valid, from one request to the next, and until then the one before stays in
// use. Authorizers that are no webhooks are there from the start or not at all, as in kube-apiserver.
package chain
