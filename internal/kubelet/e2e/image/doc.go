// Command image builds the images of the end-to-end tests: one static program, packed as an OCI archive that
// containerd imports. It needs no registry and no other tool.
//
//	image -program FILE -name localhost/test:1 -out FILE.tar [-entrypoint /program,arg]
package main
