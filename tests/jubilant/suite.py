#!/usr/bin/env python3
"""What a test suite of a charm does, with jubilant unchanged and our program under the name `juju` on the PATH: every
method of `jubilant.Juju`. Those that Pintle does not offer are refused by name.

A thread reads the status 200 times at random moments of the suite, with jubilant's parser.

    suite.py SAMPLES    the folder of the sample charms; the model `dev` of a running controller is empty
"""

import json
import pathlib
import platform
import random
import shutil
import sys
import tempfile
import threading
import time

import jubilant
from jubilant import statustypes

SAMPLES = pathlib.Path(sys.argv[1])
STATUSES = 200
DELAY = 0.1
# `wait` returns at the third status in a row that is right, and sleeps between two
WAIT_MIN = 2 * DELAY
ARCH = {'x86_64': 'amd64', 'aarch64': 'arm64'}[platform.machine()]
KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOS7xlIjyC3OfoK8Bxez7x/enitRUWt72fL6o+iQHsUQ'
waits = []


def wait(juju, ready, error=None):
    waits.append(WAIT_MIN)
    return juju.wait(ready, error=error, delay=DELAY, timeout=60)


class Reader(threading.Thread):
    """Parses the status of the model at random moments."""

    def __init__(self):
        super().__init__(daemon=True)
        self.parsed, self.errors = 0, []

    def run(self):
        juju = jubilant.Juju(model='dev')
        while self.parsed < STATUSES:
            try:
                text = juju.cli('status', '--format', 'json', '--no-settle')
                statustypes.Status._from_dict(json.loads(text))
            except Exception as error:  # whatever it is, the suite must fail
                self.errors.append(f'{error!r} {getattr(error, "stderr", "")}')
                return
            self.parsed += 1
            time.sleep(random.uniform(0, 0.2))


def refused(kind, words, call):
    try:
        call()
    except kind as error:
        text = f'{error} {getattr(error, "stderr", "")}'
        assert words in text, text
    else:
        raise AssertionError(f'{words}: not refused')


def settled(juju, *apps):
    return wait(
        juju,
        lambda status: jubilant.all_active(status, *apps) and jubilant.all_agents_idle(status, *apps),
        error=jubilant.any_error,
    )


def message(status, unit):
    return status.apps[unit.split('/')[0]].units[unit].workload_status.message


def use_secrets(juju):
    uri = juju.add_secret('login', {'password': 'first'}, info='of the suite')
    juju.grant_secret('login', ['web', 'db'])
    juju.update_secret(uri, {'password': 'second'}, name='password', info='changed')
    [secret] = juju.secrets()
    assert (secret.name, secret.description, secret.revision) == ('password', 'changed', 2), secret
    assert juju.show_secret('password').uri == uri
    assert juju.show_secret(uri, reveal=True).content == {'password': 'second'}
    assert juju.show_secret(uri, reveal=True, revision=1).content == {'password': 'first'}
    assert len(juju.show_secret(uri, revisions=True).revisions) == 2
    juju.remove_secret(uri, revision=1)
    juju.remove_secret('password')
    assert juju.secrets() == []
    refused(jubilant.CLIError, 'not found', lambda: juju.show_secret('password'))


def use_ssh_keys(juju):
    juju.add_ssh_key(f'{KEY} me@host')
    assert 'me@host' in juju.cli('ssh-keys') and KEY in juju.cli('ssh-keys', '--full')
    juju.add_ssh_key(f'{KEY} again')
    fingerprint = juju.cli('ssh-keys').splitlines()[1].split()[0]
    juju.remove_ssh_key(fingerprint)
    assert KEY not in juju.cli('ssh-keys', '--full')
    juju.add_ssh_key(f'{KEY} me@host\n')
    juju.remove_ssh_key('me@host')
    refused(jubilant.CLIError, 'not found', lambda: juju.remove_ssh_key('me@host'))
    refused(jubilant.CLIError, 'ssh key', lambda: juju.add_ssh_key('me@host'))


def refuse_what_is_not_offered(juju):
    cloud = {'clouds': {'c': {'type': 'manual'}}}
    calls = {
        'bootstrap': lambda: juju.bootstrap('lxd', 'other'),
        'offer': lambda: juju.offer('db', endpoint='db'),
        'consume': lambda: juju.consume('other.db'),
        'add-cloud': lambda: juju.add_cloud('c', cloud, client=True),
        'update-cloud': lambda: juju.update_cloud('c', cloud, client=True),
        'add-credential': lambda: juju.add_credential('c', {'credentials': {}}, client=True),
    }
    for verb, call in calls.items():
        refused(jubilant.CLIError, verb, call)


def main():
    started = time.monotonic()
    juju = jubilant.Juju(model='dev')
    reader = Reader()
    reader.start()
    assert str(juju.version()).startswith('3.6.'), juju.version()
    assert juju.show_model().short_name == 'dev'
    assert juju.status().apps == {}
    assert juju.model_constraints() == {}
    juju.model_constraints({'arch': ARCH})  # pytest-jubilant, first thing
    assert juju.model_constraints() == {'arch': ARCH}
    juju.model_config({'update-status-hook-interval': '60m'})
    assert juju.model_config()['update-status-hook-interval'] == '60m'

    # deploy, integrate, wait
    juju.deploy(SAMPLES / 'pair-db', 'db')
    juju.deploy(SAMPLES / 'pair-web', 'web', config={'color': 'red'}, num_units=2)
    juju.integrate('web:db', 'db')
    status = settled(juju)
    db, web = status.apps['db'], status.apps['web']
    assert (db.charm_name, db.charm_origin, db.charm_rev, db.exposed) == ('pair-db', 'local', 0, False), db
    assert sorted(web.units) == ['web/0', 'web/1'] and web.app_status.current == 'active', web
    related = [(one.related_app, one.scope) for one in web.relations['db']]
    assert related == [('db', 'global')], web.relations
    assert db.units['db/0'].leader and sum(unit.leader for unit in web.units.values()) == 1, status
    assert sorted(status.machines) == ['0', '1', '2'], status.machines
    machine = status.machines[db.units['db/0'].machine]
    assert machine.juju_status.current == 'started' and machine.ip_addresses == [db.units['db/0'].public_address]
    assert message(status, 'db/0') == 'web likes red', status

    # config: one status after the write shows what came of it
    juju.config('web', {'color': 'blue'})
    assert message(juju.status(), 'db/0') == 'web likes blue', juju.status()
    config = juju.config('web')
    assert (config['color'], config['slow-seconds']) == ('blue', 0), config
    juju.config('web', reset='color')
    assert juju.config('web')['color'] == 'green'
    refused(jubilant.CLIError, 'colour', lambda: juju.config('web', {'colour': 'red'}))

    # run
    task = juju.run('db/0', 'get-units')
    assert task.success and sorted(task.results['units'].split()) == ['web/0', 'web/1'], task
    assert juju.run('db/leader', 'get-units').return_code == 0
    refused(ValueError, '', lambda: juju.run('db/0', 'no-such-action'))
    refused(ValueError, '', lambda: juju.run('db/9', 'get-units'))
    refused(jubilant.CLIError, 'already exists', lambda: juju.deploy(SAMPLES / 'pair-db', 'db'))
    assert 'get-units' in juju.cli('operations')
    assert 'completed' in juju.cli('show-task', '1')

    # ssh and scp
    assert juju.ssh('db/0', 'echo "$((40 + 2))"') == '42\n'
    juju.scp(__file__, 'db/leader:suite.py', host_key_checks=False)
    assert 'suite passed' in juju.ssh('db/0', 'cat', 'suite.py', ssh_options=['-T'])
    refused(jubilant.CLIError, 'not found', lambda: juju.ssh('db/9', 'true'))

    # commands, secrets, keys, trust, a new revision, machines
    assert juju.exec('echo "$JUJU_UNIT_NAME"', unit='db/0').stdout == 'db/0\n'
    assert juju.exec('printf', '%s', 'a b', unit='db/leader').stdout == 'a b'
    assert juju.exec('echo here', machine=0).stdout == 'here\n'
    refused(jubilant.TaskError, '7', lambda: juju.exec('exit 7', unit='db/0'))
    use_secrets(juju)
    use_ssh_keys(juju)
    juju.trust('db')
    juju.trust('db', remove=True)
    with tempfile.TemporaryDirectory() as folder:
        changed = pathlib.Path(folder, 'pair-db')
        shutil.copytree(SAMPLES / 'pair-db', changed)
        (changed / 'new').write_text('content')
        juju.refresh('db', path=changed)
        assert settled(juju).apps['db'].charm_rev == 1
    juju.add_machine()
    [added] = [name for name in juju.status().machines if name not in status.machines]
    wait(juju, lambda status: status.machines[added].juju_status.current == 'started')
    juju.cli('remove-machine', '--no-prompt', added)
    wait(juju, lambda status: added not in status.machines)
    refuse_what_is_not_offered(juju)

    # what people look at
    info = juju.show_unit('web/0')
    assert info.leader == web.units['web/0'].leader and info.charm == 'local:pair-web-0', info
    remote = info.relation_info[0].related_units['db/0']
    assert remote.in_scope and remote.data['user'] == 'web', info
    log = juju.debug_log()
    assert 'unit-web-0: ' in log and 'db-relation-joined' in log, log
    assert 'unit-web-1: ' in juju.debug_log(limit=1000)

    # units come and go
    juju.add_unit('db')
    settled(juju)
    juju.remove_unit('db/0')
    status = wait(juju, lambda status: sorted(status.apps['db'].units) == ['db/1'])

    # remove
    juju.remove_relation('web', 'db')
    status = wait(juju, lambda status: jubilant.all_blocked(status, 'web'))
    assert not status.apps['web'].relations, status
    juju.remove_application('web', 'db')
    wait(juju, lambda status: not status.apps and not status.machines)

    # a model of one's own
    juju.add_model('other')
    other = jubilant.Juju(model='other')
    other.deploy(SAMPLES / 'pair-db', 'db')
    settled(other)
    refused(jubilant.CLIError, 'already exists', lambda: juju.add_model('other'))
    jubilant.Juju().destroy_model('other', destroy_storage=True, force=True)
    refused(jubilant.CLIError, 'not found', lambda: jubilant.Juju(model='other').status())

    took = time.monotonic() - started
    reader.join()
    assert (reader.parsed, reader.errors) == (STATUSES, []), reader.errors
    print(f'{took:.1f} s, of which {sum(waits):.1f} s are unavoidable waits of the suite; {reader.parsed} statuses parsed')
    print('the suite passed')


if __name__ == '__main__':
    main()
