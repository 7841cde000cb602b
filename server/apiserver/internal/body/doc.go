// Package body reads the bodies of requests, of a bounded size, and decodes them as what belongs there. What is wrong with a body is said in
// the words of kube-apiserver.
package body
