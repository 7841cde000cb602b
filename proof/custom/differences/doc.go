// Package differences compares custom resources here with those of a kube-apiserver: random definitions, random objects
// and random requests go to both, and the answers must be the same: code, reason, message, causes, warnings and body.
//
// The ordinary run sends recorded requests to this server alone, and compares its answers with those that a
// kube-apiserver gave. With a kube-apiserver at hand, whose objects may be lost, more can be asked:
//
//	go test ./proof/custom/differences -peer https://127.0.0.1:6443 -bearer TOKEN -stories 500
//
// and -record keeps the stories of such a run, up to a bound on their size.
package differences
