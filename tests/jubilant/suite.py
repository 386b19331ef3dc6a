#!/usr/bin/env python3
"""What a test suite of a charm does, with jubilant unchanged and our program under the name `juju` on the PATH.

    suite.py SAMPLES    the folder of the sample charms; the model `dev` of a running controller is empty
"""

import pathlib
import sys

import jubilant

SAMPLES = pathlib.Path(sys.argv[1])


def refused(kind, words, call):
    try:
        call()
    except kind as error:
        text = f'{error} {getattr(error, "stderr", "")}'
        assert words in text, text
    else:
        raise AssertionError(f'{words}: not refused')


def settled(juju, *apps):
    return juju.wait(
        lambda status: jubilant.all_active(status, *apps) and jubilant.all_agents_idle(status, *apps),
        error=jubilant.any_error,
        delay=0.1,
        timeout=60,
    )


def message(status, unit):
    return status.apps[unit.split('/')[0]].units[unit].workload_status.message


def main():
    juju = jubilant.Juju(model='dev')
    assert str(juju.version()).startswith('3.6.'), juju.version()
    assert juju.show_model().short_name == 'dev'
    assert juju.status().apps == {}
    juju.model_constraints({'arch': juju.model_constraints()['arch']})  # pytest-jubilant, first thing
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
    status = juju.wait(lambda status: sorted(status.apps['db'].units) == ['db/1'], delay=0.1, timeout=60)

    # remove
    juju.remove_relation('web', 'db')
    status = juju.wait(lambda status: jubilant.all_blocked(status, 'web'), delay=0.1, timeout=60)
    assert not status.apps['web'].relations, status
    juju.remove_application('web', 'db')
    juju.wait(lambda status: not status.apps and not status.machines, delay=0.1, timeout=60)

    # a model of one's own
    juju.add_model('other')
    other = jubilant.Juju(model='other')
    other.deploy(SAMPLES / 'pair-db', 'db')
    settled(other)
    refused(jubilant.CLIError, 'already exists', lambda: juju.add_model('other'))
    print('the suite passed')


if __name__ == '__main__':
    main()
