import ml_collections


def get_config():
    config = ml_collections.ConfigDict()
    config.model = "ResNet101"
    config.dataset = "speech_commands"
    config.rate = 0.05
    config.batch_size = 512
    config.num_epochs = 45.0
    config.num_train_steps = -1
    return config
