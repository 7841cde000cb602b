// Package body reads request bodies of bounded size, and decodes them as the wanted kind. Its errors have
// kube-apiserver's words.
package body
