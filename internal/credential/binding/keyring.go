package binding

import (
	"errors"
	"time"

	"github.com/zalando/go-keyring"

	"signalbox/internal/coord"
)

// service and user name the entries of the keyring. The command line's own
// tokens have addresses as their users, which have no such form.
const service = "signalbox"

func user(name string) string { return "credential:" + name }

// keyringWait bounds one question to the keyring. A locked one asks its user for
// the password in a window, which a person may not see.
const keyringWait = 5 * time.Second

// asked is one question to the keyring that all who ask meanwhile share.
type asked struct {
	done  chan struct{}
	value string
	err   error
}

// fromKeyring reads a value. The library cannot be told to give up, so a
// question that is not answered in time stays open, one for each credential at
// most, and ends when the keyring answers or the process ends.
func (b *Bindings) fromKeyring(name string) (string, error) {
	b.mu.Lock()
	a := b.asking[name]
	if a == nil {
		a = &asked{done: make(chan struct{})}
		b.asking[name] = a
		go func() {
			a.value, a.err = keyring.Get(service, user(name))
			b.mu.Lock()
			delete(b.asking, name)
			b.mu.Unlock()
			close(a.done)
		}()
	}
	b.mu.Unlock()
	timer := time.NewTimer(keyringWait)
	defer timer.Stop()
	select {
	case <-a.done:
	case <-timer.C:
		return "", coord.Errorf(coord.Unavailable, "the keyring did not give the credential %s in time: is it locked?", name)
	}
	switch {
	case errors.Is(a.err, keyring.ErrNotFound) || a.err == nil && a.value == "":
		return "", coord.Errorf(coord.Forbidden, "the credential %s has no value in the keyring: run signalbox credential set %s", name, name)
	case a.err != nil:
		return "", &coord.Error{Code: coord.Unavailable, Message: "the keyring does not answer, so the credential " + name + " has no value: is there one where signalbox serve was started?", Err: a.err}
	}
	return a.value, nil
}

// Keep puts a value into the keyring, in place of the one before.
func Keep(name, value string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if err := CheckValue(value); err != nil {
		return err
	}
	if err := keyring.Set(service, user(name), value); err != nil {
		return &coord.Error{Code: coord.Unavailable, Message: "the keyring did not take the value: is there a keyring in this session? A variable of the environment is the other way (env)", Err: err}
	}
	return nil
}

// Forget removes a value from the keyring. One that is not there is NotFound.
func Forget(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	switch err := keyring.Delete(service, user(name)); {
	case errors.Is(err, keyring.ErrNotFound):
		return coord.Errorf(coord.NotFound, "the keyring has no value for this credential")
	case err != nil:
		return &coord.Error{Code: coord.Unavailable, Message: "the keyring did not answer, and the value may still be there", Err: err}
	}
	return nil
}
