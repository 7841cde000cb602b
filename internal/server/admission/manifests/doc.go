// Package manifests reads webhook configurations and policies from files of this server, as the field
// staticManifestsDir of an AdmissionConfiguration says.
//
// What is guaranteed: Open fails if anything in the directory is wrong, and names the file. Run reads the files again
// when they have changed. All of them replace the ones before at once, or, if anything is wrong, none does. Objects are
// held to the rules of the API, and to those of static ones: their names end in .static.k8s.io, they refer to nothing
// in the API, and a binding is to a policy of the same directory. Objects never change.
package manifests
